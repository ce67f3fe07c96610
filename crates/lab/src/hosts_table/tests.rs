//! The table, its factors and its checks.

use super::*;
use crate::tests::assert_has;

fn table(text: &str) -> HostsTable {
    toml::from_str(text).unwrap()
}

fn namespaces(more: &str) -> HostsTable {
    table(&format!("kind = \"namespaces\"\n{more}"))
}

fn cell(name: &str, value: Value) -> Factors {
    Factors::from([(name.to_owned(), value)])
}

fn problem(table: &HostsTable, cells: &[Factors]) -> String {
    let violation = table.check(cells).unwrap_err();
    format!(
        "{} {}: {}",
        violation.table, violation.key, violation.problem
    )
}

#[test]
fn a_plan_restores_the_table() {
    let written = namespaces("clients = 2\n[link]\ndelay = \"1500us\"\nloss = 0.001\n");
    let plan = toml::Table::try_from(&written).unwrap();
    assert_eq!(plan.try_into::<HostsTable>().unwrap(), written);
    assert_eq!(
        written.words(),
        "network namespaces of a server and 2 clients, joined by links with a delay of 1500us, a \
         jitter of 0s and a loss of 0.1 % in each direction"
    );
    assert!(toml::from_str::<HostsTable>("delay = \"1ms\"").is_err());
}

#[test]
fn loopback_has_no_link_and_its_clients_are_processes() {
    let three = table("clients = 3");
    three.check(&[]).unwrap();
    assert_eq!(three.words(), "this machine, over loopback, with 3 clients");
    let factor = [cell("host.clients", Value::from(2.0))];
    table("").check(&factor).unwrap();
    let needed = "needs `kind = \"namespaces\"`: loopback is one host";
    let refused = three.check_clients_are_hosts(&[]).unwrap_err();
    assert_eq!(
        (refused.key.as_str(), refused.problem.as_str()),
        ("clients", needed)
    );
    let refused = table("").check_clients_are_hosts(&factor).unwrap_err();
    assert_eq!(
        refused.problem,
        format!("makes `clients` of [hosts] wrong: it {needed}")
    );
    namespaces("clients = 3")
        .check_clients_are_hosts(&factor)
        .unwrap();
    let refused = problem(&table("[link]\ndelay = \"1ms\""), &[]);
    assert!(refused.starts_with("[hosts] link: needs"), "{refused}");
    let refused = problem(&table(""), &[cell("host.delay", Value::from(1e6))]);
    assert_has(&refused, "needs `kind = \"namespaces\"` in [hosts]");
}

#[test]
fn values_outside_their_bounds_are_named_with_their_table() {
    let refused = problem(&namespaces("clients = 61"), &[]);
    assert_eq!(refused, "[hosts] clients: is 61, not 1 to 60");
    let refused = problem(&namespaces("[link]\nloss = 0.6"), &[]);
    assert_eq!(
        refused,
        "[hosts.link] loss: is 0.6, not 0 to 0.5 (a probability)"
    );
    let refused = problem(&namespaces(""), &[cell("host.loss", Value::from(0.9))]);
    assert_eq!(
        refused,
        " factor: makes `loss` of [hosts] wrong: it is 0.9, not 0 to 0.5 (a probability)"
    );
}

#[test]
fn factors_change_the_table_of_their_cells() {
    let own = namespaces("[link]\ndelay = \"1ms\"\njitter = \"10us\"\n");
    let values = ["1ms", "2ms"].map(Value::from);
    let factor = own.factor("host.delay", &values).unwrap().unwrap();
    assert_eq!(factor.values, [Value::from(1e6), Value::from(2e6)]);
    assert_eq!(factor.reference, Some(Value::from(1e6)));
    assert_eq!(factor.words(&factor.values[1]), "with a delay of 2\u{a0}ms");
    let at = own
        .at(&cell("host.delay", factor.values[1].clone()))
        .unwrap();
    assert_eq!(
        at,
        namespaces("[link]\ndelay = \"2ms\"\njitter = \"10us\"\n")
    );
    // Without a link in the table, the factor makes one in every cell.
    let at = namespaces("")
        .at(&cell("host.loss", Value::from(0.0)))
        .unwrap();
    assert_eq!(at, namespaces("[link]\n"));
    let cells = [1.0, 3.0].map(|count| cell("host.clients", Value::from(count)));
    assert_eq!(own.largest(&cells).clients, 3);
    assert!(own.factor("delay", &values).is_none());
}

#[test]
fn a_wrong_factor_names_the_remedy() {
    let refused = |name, value: Value| {
        let factor = namespaces("").factor(name, &[value]).unwrap();
        factor.unwrap_err()
    };
    let unit = refused("host.delay", Value::from(5.0));
    assert_has(&unit, "write \"5ms\" or \"5us\"");
    let misspelt = refused("host.dely", Value::from("1ms"));
    assert!(misspelt.ends_with("; did you mean `delay`?"), "{misspelt}");
    for value in [Value::from("two"), Value::from(1.5), Value::from(-1.0)] {
        let refused = refused("host.clients", value);
        assert!(refused.ends_with("which is no such number"), "{refused}");
    }
}
