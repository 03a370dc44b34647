//! The sidecar's connections: strangers who hold them, requests that can be read in two ways, and clients kept apart.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;

use kiln_tests::fault::Plan;
use kiln_tests::sidecar::{Answer, Sidecar, by_path, sha256, tcp_flags};
use kiln_tests::{Bench, DEADLINE};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::geteuid;
use serde_json::Value;

/// This process holds the other end of each connection.
fn many_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    assert!(
        hard >= 2048,
        "this test opens 1,150 connections: ulimit -Hn"
    );
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("up to the hard limit");
}

/// Sends until the peer takes no more or has closed the connection.
fn push(stream: &mut (impl Write + ?Sized), bytes: &[u8]) {
    if let Err(error) = stream.write_all(bytes) {
        assert!(
            matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            ),
            "{error}"
        );
    }
}

fn descriptors(sidecar: &Sidecar) -> usize {
    let folder = format!("/proc/{}/fd", sidecar.pid());
    fs::read_dir(folder).expect("it runs").count()
}

#[test]
fn strangers_that_never_read_keep_nobody_out() {
    many_descriptors();
    let bench = Bench::new(&Plan::healthy());
    let (token, flags) = tcp_flags(&bench);
    let sidecar = Sidecar::start(&bench, &flags.each_ref().map(String::as_str));
    let address = sidecar.tcp.clone().expect("it said where");
    let page = String::from_utf8(sidecar.get("/").body).expect("text");
    // Without the page, the answer that it is missing also counts.
    let script = page.split('"').find(|text| text.ends_with(".js"));
    let script = script.unwrap_or("/page/none.js");
    let requests = format!("GET {script} HTTP/1.1\r\nhost: {address}\r\n\r\n").repeat(64);
    let idle = descriptors(&sidecar);
    let crowd: Vec<TcpStream> = (0..1150)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).expect("a connection");
            stream.set_nonblocking(true).expect("a socket");
            push(&mut stream, requests.as_bytes());
            stream
        })
        .collect();
    assert_eq!(sidecar.get("/livez").status, 200, "by the Unix socket");
    let answer = sidecar.send_by_tcp(token, "GET", "/livez", &[], &[]);
    assert_eq!(answer.status, 200, "by TCP, with the token");
    let held = descriptors(&sidecar).saturating_sub(idle);
    assert!(held <= 80, "{held} descriptors more for strangers");
    drop(crowd);
}

#[test]
fn bodies_that_never_come_keep_nobody_out() {
    many_descriptors();
    let bench = Bench::new(&Plan::healthy());
    let sidecar = Sidecar::start(&bench, &[]);
    let socket = bench.path("run/kiln.sock");
    let head = b"POST /v1/jobs HTTP/1.1\r\nhost: kiln\r\nidempotency-key: a\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
    let connect = || -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(&socket)?;
        stream.set_nonblocking(true)?;
        push(&mut stream, head);
        Ok(stream)
    };
    let crowd: Vec<UnixStream> = (0..1030)
        .map(|_| connect().expect("a connection"))
        .collect();
    assert_eq!(sidecar.get("/livez").status, 200);
    assert_eq!(sidecar.get("/v1/jobs").status, 200);
    drop(crowd);
}

/// The statuses of the answers on a connection to which `bytes` are sent, until it is closed.
fn statuses(mut stream: impl Read + Write, bytes: &str) -> Vec<u16> {
    push(&mut stream, bytes.as_bytes());
    let mut answers = Vec::new();
    let ended = stream.read_to_end(&mut answers);
    // What was sent behind a refused request is thrown away, and the connection with it.
    let reset = |error: &io::Error| error.kind() == ErrorKind::ConnectionReset;
    assert!(ended.as_ref().err().is_none_or(reset), "{ended:?}");
    let answers = String::from_utf8_lossy(&answers);
    let status = |line: &str| line.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok();
    answers.lines().filter_map(status).collect()
}

/// Each request is followed by another one, which is answered only if both sides agree where it begins.
#[test]
fn a_request_that_can_be_read_in_two_ways_is_refused_and_ends_its_connection() {
    let bench = Bench::new(&Plan::healthy());
    let (token, flags) = tcp_flags(&bench);
    let sidecar = Sidecar::start(&bench, &flags.each_ref().map(String::as_str));
    let address = sidecar.tcp.clone().expect("it said where");
    let get = "GET /v1/jobs HTTP/1.1\nhost: HOST\nAUTH\n";
    let chunks = "5\nhello\n0\n\n";
    let head = |more: &str| format!("{get}{more}\n");
    let framed = |more: &str| format!("{get}{more}\n\n{chunks}");
    let line = |line: &str, host: &str| format!("{line}\n{host}AUTH\n\n");
    let of = |target: &str| line(&format!("GET {target} HTTP/1.1"), "host: HOST\n");
    let (fine, refused, mute): (&[u16], &[u16], &[u16]) = (&[200, 200], &[400], &[]);
    for (request, wanted) in [
        (head(""), fine),
        (head("content-length: 5\n") + "hello", fine),
        (
            head("content-length: 5\ncontent-length: 5\n") + "hello",
            fine,
        ),
        (of("http://HOST/v1/jobs"), fine),
        (line("GET /v1/jobs HTTP/1.0", "host: HOST\n"), &[200]),
        // After chunks the connection ends, so nothing can be hidden behind them.
        (framed("transfer-encoding: Chunked"), &[200]),
        // Ours.
        (
            framed("content-length: 15\ntransfer-encoding: chunked"),
            refused,
        ),
        (
            framed("transfer-encoding: chunked\ncontent-length: 15"),
            refused,
        ),
        (
            framed("transfer-encoding: chunked\nContent-Length: none"),
            refused,
        ),
        (
            head("") + &framed("content-length: 15\ntransfer-encoding: chunked"),
            &[200, 400],
        ),
        (
            head("content-length: 5\n")
                + "hello"
                + &framed("transfer-encoding: chunked\ncontent-length: 5"),
            &[200, 400],
        ),
        (framed("transfer-encoding: identity, chunked"), refused),
        (framed("transfer-encoding: gzip, chunked"), refused),
        (
            framed("transfer-encoding: chunked\ntransfer-encoding: chunked"),
            refused,
        ),
        (
            line("GET http://evil.example/v1/jobs HTTP/1.1", "host: HOST\n"),
            refused,
        ),
        (
            line("GET http://evil@HOST/v1/jobs HTTP/1.1", "host: HOST\n"),
            refused,
        ),
        (line("GET http://HOST/v1/jobs HTTP/1.0", ""), refused),
        (line("GET /v1/jobs HTTP/1.1", ""), refused),
        (head("host: HOST\n"), refused),
        // hyper's.
        (framed("transfer-encoding: chunked, identity"), refused),
        (framed("transfer-encoding: chunked;q=1"), refused),
        (framed("transfer-encoding : chunked"), refused),
        (framed("x: y\n transfer-encoding: chunked"), refused),
        (
            line("GET /v1/jobs HTTP/1.0", "transfer-encoding: chunked\n") + chunks,
            refused,
        ),
        (
            head("content-length: 5\ncontent-length: 6\n") + "hello",
            refused,
        ),
        (head("content-length: 5, 5\n") + "hello", refused),
        (head("content-length: +5\n") + "hello", refused),
        (head("content-length: -5\n") + "hello", refused),
        // HTTP/2 is not spoken, so its :authority names nobody.
        ("PRI * HTTP/2.0\n\nSM\n\n".to_owned(), mute),
    ] {
        let last = line("GET /livez HTTP/1.1", "host: HOST\nconnection: close\n");
        let sent = (request.clone() + &last).replace('\n', "\r\n");
        let sent = sent.replace("AUTH", &format!("authorization: Bearer {token}"));
        let socket = UnixStream::connect(bench.path("run/kiln.sock")).expect("it listens");
        socket.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let answered = statuses(socket, &sent.replace("HOST", "kiln"));
        assert_eq!(answered, wanted, "by the Unix socket: {request}");
        let tcp = TcpStream::connect(&address).expect("it listens");
        tcp.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let answered = statuses(tcp, &sent.replace("HOST", &address));
        assert_eq!(answered, wanted, "by TCP: {request}");
    }
}

#[test]
fn a_disk_without_room_for_another_file_is_full_in_true_words() {
    let bench = Bench::new(&Plan::healthy());
    let (socket, store) = (bench.path("kiln.sock"), bench.path("small/store"));
    fs::create_dir(bench.path("small")).expect("room");
    // In its own mount namespace, since SQLite needs the disk at a path.
    let mut small = Command::new("unshare");
    if !geteuid().is_root() {
        small.arg("--map-root-user");
    }
    let mount = "mount -t tmpfs -o size=2g,nr_inodes=1000 none \"$1\" && shift && exec \"$@\"";
    let kiln = bench.kiln();
    small.args(["--mount", "sh", "-c", mount, "sh"]);
    small.arg(bench.path("small")).arg(kiln.get_program());
    small.args(["serve", "--insecure-no-sandbox", "--socket"]);
    small.arg(&socket).arg("--store").arg(&store);
    small.arg("--baker").arg(bench.baker());
    let sidecar = Sidecar::spawn(small, socket);
    let inside = format!(
        "/proc/{}/root{}",
        sidecar.pid(),
        bench.path("small").display()
    );
    let full = (0..1000).find_map(|number| fs::write(format!("{inside}/{number}"), "").err());
    let full = full.expect("fewer files than that");
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    let refused = sidecar.send("PUT", &format!("/v1/blobs/{}", sha256(b"a")), &[], b"a");
    assert_eq!(refused.problem(), (507, "insufficient_storage".to_owned()));
    let told = refused.json();
    assert_eq!(told["retryable"], true);
    assert!(
        told["detail"].as_str().expect("text").contains("inodes"),
        "{told}"
    );
}

#[test]
fn a_clients_jobs_are_not_there_for_another_and_the_owner_sees_all() {
    let bench = Bench::new(&Plan::healthy());
    let (token, flags) = tcp_flags(&bench);
    let sidecar = Sidecar::start(&bench, &flags.each_ref().map(String::as_str));
    let by_tcp = |method: &str, path: &str| sidecar.send_by_tcp(token, method, path, &[], &[]);
    let own = sidecar.submit("own", &by_path(&bench.path(""))).id();
    assert_eq!(sidecar.finished(&own)["state"], "succeeded");
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "own"),
    ];
    let spec = by_path(&bench.path("")).to_string();
    let theirs = sidecar.send_by_tcp(token, "POST", "/v1/jobs", &headers, spec.as_bytes());
    let theirs = theirs.id();
    assert_ne!(own, theirs);
    let unknown = by_tcp("GET", &format!("/v1/jobs/{}", "0".repeat(32)));
    for (method, path) in [
        ("GET", format!("/v1/jobs/{own}")),
        ("DELETE", format!("/v1/jobs/{own}")),
        ("POST", format!("/v1/jobs/{own}/cancel")),
        ("GET", format!("/v1/jobs/{own}/events")),
        ("GET", format!("/v1/jobs/{own}/artifacts/model.glb")),
    ] {
        let answer = by_tcp(method, &path);
        assert_eq!(
            answer.problem(),
            (404, "not_found".to_owned()),
            "{method} {path}"
        );
        assert_eq!(answer.json(), unknown.json(), "as if it were not there");
    }
    let listed = |answer: Answer| -> Vec<String> {
        let jobs = answer.json()["jobs"].as_array().expect("a list").clone();
        let id = |job: &Value| job["id"].as_str().expect("an id").to_owned();
        jobs.iter().map(id).collect()
    };
    assert_eq!(
        listed(by_tcp("GET", "/v1/jobs")),
        std::slice::from_ref(&theirs)
    );
    assert_eq!(listed(sidecar.get("/v1/jobs")), [theirs.clone(), own]);
    // All of them are the owner's.
    assert_eq!(sidecar.finished(&theirs)["state"], "succeeded");
    let theirs = format!("/v1/jobs/{theirs}");
    assert_eq!(
        by_tcp("GET", &format!("{theirs}/artifacts/model.glb")).status,
        200
    );
    assert_eq!(by_tcp("POST", &format!("{theirs}/cancel")).status, 200);
    assert_eq!(sidecar.send("DELETE", &theirs, &[], &[]).status, 204);
}
