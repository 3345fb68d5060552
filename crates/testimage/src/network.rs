//! The least of a server, and of a client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::fail;

const TIMEOUT: Duration = Duration::from_secs(10);

/// `serve PORT [TEXT]`: answers every HTTP request with its own name and the text; `/status/N` with that status,
/// `/echo` with the request, `/exit/N` by ending, `/env/NAME` with a variable, `/file/PATH` with a file.
pub fn serve(arguments: &[String]) -> i32 {
    let port: u16 = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(8080);
    let text = arguments.get(1).cloned().unwrap_or_else(|| "ok".to_owned());
    let listener = match TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port))) {
        Ok(listener) => listener,
        Err(error) => return fail("serve", error),
    };
    println!("serving on port {port}");
    for connection in listener.incoming().flatten() {
        let text = text.clone();
        std::thread::spawn(move || {
            // Who hangs up hangs up.
            let _ = answer(connection, &text);
        });
    }
    0
}

fn answer(mut connection: TcpStream, text: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request)? == 0 {
            return Ok(());
        }
        let (mut headers, mut length) = (request.clone(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 || line == "\r\n" {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            headers.push_str(&line);
        }
        let mut body = vec![0; length.min(1 << 20)];
        reader.read_exact(&mut body)?;
        println!("{}", request.trim_end());
        let path = request.split(' ').nth(1).unwrap_or("/");
        let (status, body) = respond(path, text, &headers, &body);
        let length = body.len();
        write!(connection, "HTTP/1.1 {status} Status\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n")?;
        connection.write_all(&body)?;
    }
}

fn respond(path: &str, text: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let path = path.split('?').next().unwrap_or_default();
    let number = |text: &str| text.parse::<u16>().unwrap_or(500);
    if let Some(status) = path.strip_prefix("/status/") {
        return (number(status), b"status\n".to_vec());
    }
    if let Some(code) = path.strip_prefix("/exit/") {
        std::process::exit(number(code).into());
    }
    if let Some(name) = path.strip_prefix("/env/") {
        return (200, std::env::var(name).unwrap_or_default().into_bytes());
    }
    if let Some(name) = path.strip_prefix("/file") {
        return std::fs::read(name).map_or((404, b"no such file\n".to_vec()), |content| (200, content));
    }
    if path == "/echo" {
        return (200, [headers.as_bytes(), b"\n", body].concat());
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (200, format!("{host} {text}\n").into_bytes())
}

/// `get [http://]HOST[:PORT][/PATH]`: prints the body; 0 if the answer is one of success.
pub fn get(arguments: &[String]) -> i32 {
    let Some(url) = arguments.first() else {
        return fail("get", "where from?");
    };
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (host, path) = rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, path.to_owned()));
    let address = if host.contains(':') && !host.ends_with(']') { host.to_owned() } else { format!("{host}:80") };
    let fetched = dial(&address).and_then(|mut connection| {
        write!(connection, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).map(|_| answer)
    });
    match fetched {
        Ok(answer) => {
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
            print!("{body}");
            let status = head.split(' ').nth(1).unwrap_or_default();
            if status.starts_with('2') { 0 } else { fail("get", format_args!("status {status}")) }
        }
        Err(error) => fail("get", format_args!("{address}: {error}")),
    }
}

/// `connect HOST PORT`: whether somebody listens there.
pub fn connect(arguments: &[String]) -> i32 {
    match dial(&arguments.join(":")) {
        Ok(_) => {
            println!("connected");
            0
        }
        Err(error) => fail("connect", error),
    }
}

fn dial(address: &str) -> std::io::Result<TcpStream> {
    let addresses: Vec<_> = std::net::ToSocketAddrs::to_socket_addrs(address)?.collect();
    let mut last = std::io::Error::other("no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(connection) => {
                // What `serve` keeps open ends by this.
                connection.set_read_timeout(Some(TIMEOUT))?;
                return Ok(connection);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
