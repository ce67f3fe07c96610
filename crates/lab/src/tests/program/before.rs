//! Commands that run before a program.

use super::{Options, metric, run};
use crate::tests::gate::Fixture;

/// A trial whose program prints the lines of a file that the commands before it have written.
fn lines(options: &Options, clients: u8, before: &str) -> Vec<report::record::Record> {
    let tables = format!(
        "repeats = 1\n[hosts]\nclients = {clients}\n[program]\n\
         command = [\"/bin/sh\", \"-c\", 'echo all $(wc -l < $FILE)']\n\
         environment = {{ FILE = \"{}/{{trial}}\" }}\ntimeout = \"60s\"\n{before}\n\
         [[metric]]\nname = \"all\"\nunit = \"count\"\nregex = 'all ([0-9]+)'\n",
        options.runs.parent().unwrap().display()
    );
    run(options, &tables).1
}

#[test]
fn commands_before_a_program_run_in_order_on_the_first_client() {
    let fixture = Fixture::new();
    let script = |more: &str, script: &str| {
        format!(
            "[[before]]\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\ntimeout = \"60s\"\n{more}\n"
        )
    };
    let create = script("", ": > $FILE");
    let once = script("input = [\"seq\", \"3\"]", "cat >> $FILE");
    let client = script("", "echo client {client} >> $FILE");
    let records = lines(&fixture.options(), 2, &(create + &once + &client));
    assert_eq!(metric(&records[0], "all"), 4.0, "{records:?}");
    let folder = fixture
        .path("runs")
        .read_dir()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let log = format!("logs/{}.before-2.stdout", records[0].id);
    assert!(folder.path().join(log).exists());
}

#[test]
fn a_command_before_a_program_that_fails_or_hangs_fails_the_trial() {
    let fixture = Fixture::new();
    let failing = "[[before]]\ncommand = [\"true\"]\ntimeout = \"60s\"\n[[before]]\n\
                   command = [\"/bin/sh\", \"-c\", 'echo no server >&2; exit 4']\ntimeout = \"60s\"\n";
    let records = lines(&fixture.options(), 1, failing);
    let reason = "before-1: the program exited with status 4: no server";
    assert_eq!(records[0].failure(), Some(reason));
    let hanging = "[[before]]\ncommand = [\"/bin/sh\", \"-c\", 'exec cat']\n\
                   timeout = \"300ms\"\ninput = [\"tail\", \"-f\", \"/dev/null\"]\n";
    let records = lines(&fixture.options(), 2, hanging);
    let reason = "before-0: the program did not exit within 300 ms and was killed";
    assert_eq!(records[0].failure(), Some(reason));
}

#[test]
fn a_process_beside_that_dies_during_a_command_before_the_program_is_named() {
    let fixture = Fixture::new();
    let dying = "[[before]]\ncommand = [\"tail\", \"-f\", \"/dev/null\"]\ntimeout = \"60s\"\n\
                 [[beside]]\nname = \"server\"\n\
                 command = [\"/bin/sh\", \"-c\", \"sleep 0.1; echo no memory; exit 3\"]\n";
    let records = lines(&fixture.options(), 1, dying);
    let reason = "server exited during the trial (exit status: 3): no memory";
    assert_eq!(records[0].failure(), Some(reason));
}
