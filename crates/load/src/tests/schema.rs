//! Golden tests (comparisons with a fixed text) of the JSON that `curtail load --json` prints, and
//! of the table that `curtail load` prints. Programs and people read these texts: a change of an
//! expected text in this file is a change for them, too.

use crate::agents::clock::ClockOffset;
use crate::agents::{AgentLimits, AgentReport};
use crate::summary::{
    Bursts, CarrierSummary, Censored, ClosedLoop, Failures, LatencyDistribution, Loop,
    OperationSummary, READABLE, SCHEMA, Summary, Watched,
};
use crate::{MeasuringReport, Part, text};

/// A distribution of two latencies, without censored requests: requests whose latency is known only
/// as a lower bound, because they were not answered. The texts in `hdr` stand for the encoded
/// histograms.
fn distribution() -> LatencyDistribution {
    LatencyDistribution {
        count: 2,
        mean: 1_500.0,
        min: 1_000,
        max: 2_000,
        percentiles: vec![(50.0, 1_000), (99.9, 2_000)],
        hdr: "HISTFAAA".to_owned(),
        censored: None,
    }
}

/// The same distribution, with one censored request.
fn distribution_with_censored() -> LatencyDistribution {
    LatencyDistribution {
        censored: Some(Censored {
            count: 1,
            lower_bounds: vec![99.9],
            hdr: "HISTFBBB".to_owned(),
        }),
        ..distribution()
    }
}

/// The summary of an imaginary run in open loop. The golden texts [`JSON`] and [`TABLE`] show it.
fn summary() -> Summary {
    Summary {
        schema: SCHEMA.to_owned(),
        demand: Loop::Open,
        offered_rps: Some(3.0),
        duration_ns: 1_000_000_000,
        intended: 3,
        sent: 2,
        answered: 2,
        censored: 1,
        failures: Failures::default(),
        follow_ups: 0,
        errors: 0,
        achieved_rps: 2.0,
        gets: 1,
        hits: 1,
        sets: 1,
        lost_connections: 0,
        resident: Some(1.0),
        response: Some(distribution_with_censored()),
        service: distribution(),
        slip: None,
        slip_max_ns: None,
        lateness: None,
        generator_limited: true,
        generator_cpu: 0.5,
        generator_busy: 0.25,
        outstanding_mean: 1.5,
        outstanding_unread: 0.25,
        outstanding_expected: 1.25,
        bytes_sent: 60,
        bytes_received: 4_000_000,
        unstamped: 3,
        saturating_rps: Some(2.5),
        watched: Some(Watched {
            user_ns: 4_000,
            system_ns: 6_000,
            resident_bytes: 1_000_000,
            resident_before_bytes: Some(900_000),
            voluntary_switches: Some(3),
            involuntary_switches: Some(4),
        }),
        bursts: Some(Bursts {
            counts: vec![3, 0, 1],
            connections: 6,
        }),
        stalls: Some(distribution()),
        operations: vec![operation("get"), operation("set")],
        carrier: None,
        script: None,
        files: None,
        closed_loop: None,
        agents: Vec::new(),
        measuring_client: None,
        seconds: Vec::new(),
    }
}

/// The requests of one operation in [`summary`].
fn operation(name: &str) -> OperationSummary {
    OperationSummary {
        operation: name.to_owned(),
        count: 1,
        keys: 1,
        hits: 1,
        misses: 0,
        conflicts: 0,
        errors: 0,
        failures: Failures::default(),
        bytes_sent: 30,
        bytes_received: 2_000_000,
        response: None,
        service: distribution(),
    }
}

/// The JSON of [`summary`].
const JSON: &str = r#"{"schema":"curtail.load/3","demand":"open","offered_rps":3.0,"duration_ns":1000000000,"intended":3,"sent":2,"answered":2,"censored":1,"failures":{"timed_out":0,"refused":0,"closed":0,"no_port":0},"follow_ups":0,"errors":0,"achieved_rps":2.0,"gets":1,"hits":1,"sets":1,"lost_connections":0,"resident":1.0,"response":{"count":2,"mean":1500.0,"min":1000,"max":2000,"percentiles":[[50.0,1000],[99.9,2000]],"hdr":"HISTFAAA","censored":{"count":1,"lower_bounds":[99.9],"hdr":"HISTFBBB"}},"service":{"count":2,"mean":1500.0,"min":1000,"max":2000,"percentiles":[[50.0,1000],[99.9,2000]],"hdr":"HISTFAAA","censored":null},"slip":null,"lateness":null,"generator_limited":true,"generator_cpu":0.5,"generator_busy":0.25,"outstanding_mean":1.5,"outstanding_unread":0.25,"outstanding_expected":1.25,"bytes_sent":60,"bytes_received":4000000,"unstamped":3,"saturating_rps":2.5,"watched":{"user_ns":4000,"system_ns":6000,"resident_bytes":1000000,"resident_before_bytes":900000,"voluntary_switches":3,"involuntary_switches":4},"bursts":{"counts":[3,0,1],"connections":6},"stalls":{"count":2,"mean":1500.0,"min":1000,"max":2000,"percentiles":[[50.0,1000],[99.9,2000]],"hdr":"HISTFAAA","censored":null},"operations":[{"operation":"get","count":1,"keys":1,"hits":1,"misses":0,"conflicts":0,"errors":0,"failures":{"timed_out":0,"refused":0,"closed":0,"no_port":0},"bytes_sent":30,"bytes_received":2000000,"response":null,"service":{"count":2,"mean":1500.0,"min":1000,"max":2000,"percentiles":[[50.0,1000],[99.9,2000]],"hdr":"HISTFAAA","censored":null}},{"operation":"set","count":1,"keys":1,"hits":1,"misses":0,"conflicts":0,"errors":0,"failures":{"timed_out":0,"refused":0,"closed":0,"no_port":0},"bytes_sent":30,"bytes_received":2000000,"response":null,"service":{"count":2,"mean":1500.0,"min":1000,"max":2000,"percentiles":[[50.0,1000],[99.9,2000]],"hdr":"HISTFAAA","censored":null}}],"carrier":null,"script":null}"#;

/// The table of [`summary`].
const TABLE: &str = "\
latency          mean       p50     p99.9       max
response     ≥1.50 µs   1.00 µs  ≥2.00 µs  ≥2.00 µs
service       1.50 µs   1.00 µs   2.00 µs   2.00 µs

achieved   2.00/s of offered 3.00/s
requests   3 intended, 2 sent, 2 answered, 1 censored, 0 errors
answers    1 gets (100% hits), 1 sets
bytes      60 bytes/s out, 3.8 MiB/s in
check      1.50 outstanding by count, of which at most 0.25 answers not yet read; by time stamps 1.25
generator  50% processor, 25% busy
saturating 2.50/s answered on the saturating connections, not counted above
watched    889 ns user, 1.33 µs system per request; 976.6 KiB; 3 voluntary, 4 involuntary switches
bursts     1.50 ready connections per wake-up of the server, 75% of 4 with a single one
stalls     1.00 µs at p50, 2.00 µs at p99.9, 2.00 µs at most: wake-up latency on the processor watched
≥          a lower bound: includes requests never answered, each at the lowest latency it can have had
GENERATOR-LIMITED: these figures measure the generator rather than the server
";

#[test]
fn summary_round_trips_through_json() {
    assert_eq!(serde_json::to_string(&summary()).unwrap(), JSON);
    assert_eq!(serde_json::from_str::<Summary>(JSON).unwrap(), summary());
}

#[test]
fn summary_of_a_closed_loop_round_trips_through_json() {
    let rates = concat!(
        r#"{"connections":5,"requests_per_s":7300.0,"connections_over_mean_rps":7299.5,"#,
        r#""time_per_request_ns":684931.5,"failed_share":0.25}"#,
    );
    let json = JSON.replace(
        r#""script":null"#,
        &format!(r#""script":null,"closed_loop":{rates}"#),
    );
    let closed = Summary {
        closed_loop: Some(ClosedLoop {
            connections: 5,
            requests_per_s: 7300.0,
            connections_over_mean_rps: 7299.5,
            time_per_request_ns: 684_931.5,
            failed_share: 0.25,
        }),
        ..summary()
    };
    assert_eq!(serde_json::to_string(&closed).unwrap(), json);
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), closed);
}

/// Removes from the JSON text of a summary the fields that version 3 of the schema added. The field
/// `operations` and all fields after it are among these.
fn without_version_3(json: &str) -> String {
    let failures = r#""failures":{"timed_out":0,"refused":0,"closed":0,"no_port":0},"#;
    let json = json
        .replacen(failures, "", 1)
        .replace(r#""follow_ups":0,"#, "");
    let end = json.find(r#","operations":"#).unwrap_or(json.len());
    let fields = &json[..end];
    format!("{fields}}}")
}

#[test]
fn summary_of_version_2_is_read() {
    let old = without_version_3(&JSON.replace("load/3", "load/2"));
    let expected = Summary {
        schema: "curtail.load/2".to_owned(),
        operations: Vec::new(),
        ..summary()
    };
    assert_eq!(serde_json::from_str::<Summary>(&old).unwrap(), expected);
    assert!(READABLE.contains(&expected.schema.as_str()));
}

/// Old summaries have no field `censored` in their distributions, and no `outstanding_unread`.
#[test]
fn summary_without_separate_censored_samples_is_read() {
    let samples = r#","censored":{"count":1,"lower_bounds":[99.9],"hdr":"HISTFBBB"}"#;
    let old = JSON.replace(samples, "").replace(r#","censored":null"#, "");
    let old = old.replace(r#","outstanding_unread":0.25"#, "");
    let old = without_version_3(&old);
    assert_eq!(old.matches("censored").count(), 1, "Summary::censored only");
    let mut expected = summary();
    expected.response = Some(distribution());
    expected.outstanding_unread = 0.0;
    expected.operations.clear();
    assert_eq!(serde_json::from_str::<Summary>(&old).unwrap(), expected);
}

#[test]
fn summary_of_version_1_is_read_under_its_old_field_names() {
    let old = without_version_3(&JSON.replace("load/3", "load/1"));
    let old = old.replace("saturating_rps", "greedy_rps");
    let old = old.replace("stalls", "witness");
    let expected = Summary {
        schema: "curtail.load/1".to_owned(),
        operations: Vec::new(),
        ..summary()
    };
    assert!(READABLE.contains(&expected.schema.as_str()));
    assert_eq!(serde_json::from_str::<Summary>(&old).unwrap(), expected);
}

#[test]
fn table_warns_if_time_stamps_and_count_of_outstanding_requests_disagree() {
    // By Little's law, the mean number of outstanding requests can be computed from their time
    // stamps. It must agree with the mean that was counted, which is 1.5 here.
    let mut inconsistent = summary();
    inconsistent.outstanding_expected = 1.1;
    assert!(text::table(&inconsistent).contains("\nLITTLE'S LAW FAILS: "));
}

#[test]
fn table_is_the_golden_text() {
    assert_eq!(text::table(&summary()), TABLE);
}

#[test]
fn table_shows_operations_failures_carrier_and_follow_ups() {
    let mut mixed = summary();
    mixed.operations.push(OperationSummary {
        count: 2,
        hits: 0,
        misses: 1,
        conflicts: 1,
        failures: Failures {
            timed_out: 3,
            ..Failures::default()
        },
        bytes_sent: 300,
        bytes_received: 50,
        ..operation("cas")
    });
    mixed.failures.timed_out = 3;
    mixed.failures.refused = 1;
    mixed.follow_ups = 2;
    mixed.carrier = Some(CarrierSummary {
        name: "udp".to_owned(),
        timeout_ns: 250_000_000,
        opened: 0,
        resets: 0,
        late_or_duplicate: 7,
        malformed: 0,
        http: None,
    });
    let table = text::table(&mixed);
    for line in [
        "operation     answered      hits    misses conflicts  errors  failed   B out    B in \
         response p50        p99",
        "cas                  2         0         1         1       0       3     150      25      \
         1.00 µs          -",
        "failed     4: 3 timed out, 1 refused",
        "carrier    udp, time-out 250 ms, 7 late or repeated answers ignored",
        "follow-ups 2 requests caused by answers, on top of those offered",
    ] {
        assert!(table.lines().any(|shown| shown == line), "{line}\n{table}");
    }
}

/// The summary of a run in which two *agents* (generators on other hosts) share the load, and a
/// measuring client sends requests beside them. One agent is missing: it did not deliver its
/// results, so the summary does not include them.
fn summary_of_agents() -> Summary {
    let report = |number, missing: Option<&str>| AgentReport {
        agent: format!("192.0.2.1{number}:7700"),
        part: Part {
            number,
            first: 8 * number,
            count: 8,
        },
        missing: missing.map(str::to_owned),
        clock: Some(ClockOffset {
            offset_ns: -1_500,
            error_ns: 200,
        }),
        clock_moved: None,
        limits: missing.is_none().then_some(AgentLimits {
            achieved_rps: 2.0,
            lateness_p99_ns: Some(700),
            generator_cpu: 0.5,
            generator_busy: 0.25,
            generator_limited: true,
            littles_law_holds: true,
        }),
    };
    Summary {
        agents: vec![report(0, None), report(1, Some("it closed the connection"))],
        measuring_client: Some(Box::new(MeasuringReport {
            connections: 4,
            depth: 1,
            summary: summary(),
        })),
        ..summary()
    }
}

#[test]
fn summary_of_agents_round_trips_through_json() {
    let text = serde_json::to_string(&summary_of_agents()).unwrap();
    let agents = r#""agents":[{"agent":"192.0.2.10:7700","part":{"number":0,"first":0,"count":8},"missing":null,"clock":{"offset_ns":-1500,"error_ns":200},"clock_moved":null,"limits":{"achieved_rps":2.0,"lateness_p99_ns":700,"generator_cpu":0.5,"generator_busy":0.25,"generator_limited":true,"littles_law_holds":true}},{"agent":"192.0.2.11:7700","part":{"number":1,"first":8,"count":8},"missing":"it closed the connection","clock":{"offset_ns":-1500,"error_ns":200},"clock_moved":null,"limits":null}],"measuring_client":{"connections":4,"depth":1,"summary":{"schema":"curtail.load/3","#;
    assert!(text.contains(agents), "{text}");
    let read = serde_json::from_str::<Summary>(&text).unwrap();
    assert_eq!(read, summary_of_agents());
}

#[test]
fn table_shows_a_missing_agent_and_a_measuring_client() {
    let text = text::table(&summary_of_agents());
    for line in [
        "achieved   2.00/s of offered 3.00/s, on 8 of 16 connections\n",
        // The processor times of the server, 4000 ns and 6000 ns, divided by the 6.5 requests that
        // it answered: 2 of the load, 2.5 of the saturating connections and 2 of the measuring
        // client.
        "watched    615 ns user, 923 ns system per request; 976.6 KiB; 3 voluntary, 4 involuntary \
         switches\n",
        "agent      192.0.2.10:7700, connections 0 to 7: 2.00/s, lateness 700 ns at p99, 25% busy, \
         GENERATOR-LIMITED; clock −1.50 µs ± 200 ns\n",
        "agent      192.0.2.11:7700 MISSING, connections 8 to 15: it closed the connection\n",
        "MISSING: 8 of 16 connections; every figure above is of the others\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let (load, client) = text
        .split_once("\nmeasuring client: 4 connections, depth 1, beside a load of 2.00/s\n")
        .unwrap();
    assert!(load.starts_with("latency ") && client == TABLE, "{text}");
}
