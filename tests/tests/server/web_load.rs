//! The load generator against web servers: Curtail's documents, and nginx and Apache if they are
//! installed.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use curtail_tests::process::curtail_path;
use curtail_tests::web_servers::{Peer, start};
use load::{Config, Protocol, Rate, Summary};
use workload::{Popularity, WebFiles};

const SEED: u64 = 9;

/// Makes a directory of files below `root` by the program.
fn make(root: &Path) -> WebFiles {
    let mut command = Command::new(curtail_path());
    command.args(["files", "make"]).arg(root);
    command.args(["--files", "directories=1", "--seed", &SEED.to_string()]);
    assert!(command.stdout(Stdio::null()).status().unwrap().success());
    WebFiles::new(1, SEED).unwrap()
}

fn measure(address: SocketAddr, files: WebFiles, rate: Rate, per_connection: u32) -> Summary {
    let mut config = Config::new(load::Target::Tcp(address));
    (config.rate, config.connections, config.spin) = (rate, 8, false);
    (config.warmup_ns, config.duration_ns) = (100_000_000, 500_000_000);
    (config.protocol, config.files) = (Protocol::Http, Some(files));
    (config.popularity, config.verify) = (Popularity::Zipf(1.0), true);
    config.timeout_ns = config.protocol.default_timeout_ns();
    config.requests_per_connection = Some(per_connection);
    config.mix = Some("get=9,head=1".parse().unwrap());
    load::run(&config, |_| ()).unwrap()
}

fn assert_files_are_read(name: &str, address: SocketAddr, files: WebFiles) {
    for rate in [Rate::PerSecond(400.0), Rate::Max] {
        let summary = measure(address, files, rate, 5);
        assert!(summary.answered > 100, "{name}: {summary:?}");
        assert_eq!(
            summary.failures.total() + summary.errors,
            0,
            "{name}: {summary:?}"
        );
        // The bytes of every answer are those of its file.
        let found: u64 = summary.operations.iter().map(|it| it.hits).sum();
        assert_eq!(found, summary.answered, "{name}: {summary:?}");
        let carrier = summary.carrier.unwrap();
        let statuses = carrier.http.unwrap();
        assert!(
            statuses.status_2xx >= summary.answered,
            "{name}: {statuses:?}"
        );
        assert!(
            carrier.opened * 5 >= statuses.status_2xx,
            "{name}: {}",
            carrier.opened
        );
        let files = summary.files.unwrap();
        assert!(
            files.service_inversion.is_some() && files.sampled > 50,
            "{name}: {files:?}"
        );
    }
    // Other bytes than those of the files, of the same lengths.
    let summary = measure(
        address,
        files.with_seed(SEED + 1),
        Rate::PerSecond(400.0),
        5,
    );
    let heads = summary.operations.iter().find(|it| it.operation == "head");
    let heads = heads.map_or(0, |it| it.count);
    assert_eq!(
        summary.errors,
        summary.answered - heads,
        "{name}: {summary:?}"
    );
}

#[test]
fn files_of_each_web_server_are_read_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), mode).unwrap();
    let root = folder.path().join("root");
    let files = make(&root);
    {
        let (_server, address) = start(&root, &[]).unwrap();
        assert_files_are_read("curtail", address, files);
    }
    let (peers, missing) = Peer::all();
    for name in missing {
        eprintln!("skipped: {name} is not installed");
    }
    for peer in peers.iter().filter(|peer| peer.serves_files()) {
        match peer.start(folder.path(), &root) {
            Ok((_server, address)) => assert_files_are_read(peer.name, address, files),
            Err(error) => eprintln!("skipped: {} does not start here: {error:#}", peer.name),
        }
    }
}
