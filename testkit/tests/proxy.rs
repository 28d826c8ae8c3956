//! The proxy cuts where it was told to.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use hence_testkit::{Fault, Proxy, Side};

/// Long enough to notice that nothing comes, short enough to wait for it.
const QUIET: Duration = Duration::from_millis(200);
const SOON: Duration = Duration::from_secs(10);

/// A server that sends back what it gets, and tells all it got when a connection has ended.
fn echo() -> (Proxy, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = Proxy::to(listener.local_addr().expect("an address")).expect("a proxy");
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream.expect("a connection"), tell.clone());
            std::thread::spawn(move || {
                let (mut all, mut buffer) = (Vec::new(), [0; 1024]);
                while let Ok(size @ 1..) = stream.read(&mut buffer) {
                    all.extend_from_slice(&buffer[..size]);
                    drop(stream.write_all(&buffer[..size]));
                }
                drop(tell.send(String::from_utf8_lossy(&all).into_owned()));
            });
        }
    });
    (proxy, told)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).expect("the proxy listens");
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    stream
}

/// Sends a text and reads as many bytes back.
fn round(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).expect("it is sent");
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back).expect("it comes back");
    String::from_utf8_lossy(&back).into_owned()
}

/// Everything that comes before the connection ends.
fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    match stream.read_to_string(&mut text) {
        Ok(_) => text,
        Err(error) => panic!("no end came: {error}"),
    }
}

#[test]
fn what_is_cut_ends_and_new_connections_are_taken() {
    let (proxy, _told) = echo();
    let mut one = connect(&proxy);
    assert_eq!(round(&mut one, "hello"), "hello");
    proxy.cut();
    assert_eq!(rest(&mut one), "");
    assert_eq!(round(&mut connect(&proxy), "again"), "again");
}

#[test]
fn refused_until_it_is_open_again() {
    let (proxy, _told) = echo();
    proxy.refuse();
    assert_eq!(rest(&mut connect(&proxy)), "");
    proxy.open();
    assert_eq!(round(&mut connect(&proxy), "again"), "again");
}

#[test]
fn stalled_bytes_arrive_later() {
    let (proxy, _told) = echo();
    let mut stream = connect(&proxy);
    assert_eq!(round(&mut stream, "before"), "before");
    proxy.stall();
    stream.write_all(b"held").unwrap();
    stream.set_read_timeout(Some(QUIET)).unwrap();
    let nothing = stream.read(&mut [0; 8]).unwrap_err();
    assert!(matches!(nothing.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{nothing}");
    proxy.open();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut back = [0; 4];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"held");
}

#[test]
fn faults_let_through_what_they_say() {
    // What is armed, what the client sends, what the server gets, what the client gets.
    let table: [(Fault, &str, &str, &str); 5] = [
        (Fault::AfterBytes(Side::Client, 4), "abcdef", "abcd", ""),
        (Fault::AfterBytes(Side::Server, 4), "abcdef", "abcdef", "abcd"),
        (Fault::BeforeMessage("COMMIT".into()), "insert;COMMIT;", "insert;", ""),
        (Fault::AfterMessage("COMMIT".into()), "insert;COMMIT;", "insert;COMMIT;", ""),
        (Fault::AfterMessage("MIT".into()), "COMMIT;", "COMMIT;", ""),
    ];
    for (fault, sent, arrived, answered) in table {
        let (proxy, told) = echo();
        let mut stream = connect(&proxy);
        assert_eq!(round(&mut stream, "first"), "first", "{fault:?}");
        proxy.arm(fault.clone());
        assert!(!proxy.happened(Duration::ZERO), "{fault:?}");
        stream.write_all(sent.as_bytes()).unwrap();
        let got = rest(&mut stream);
        assert!(proxy.happened(SOON), "{fault:?}");
        let all = told.recv_timeout(SOON).unwrap();
        assert_eq!(all, format!("first{arrived}"), "{fault:?}");
        // When the cut is on the client's bytes, the answer to the first part races with it.
        let side = matches!(fault, Fault::AfterBytes(Side::Client, _) | Fault::BeforeMessage(_));
        assert!(got == answered || (side && arrived.starts_with(&got)), "{fault:?}: {got}");
        assert_eq!(round(&mut connect(&proxy), sent), sent, "{fault:?} happens once");
    }
}
