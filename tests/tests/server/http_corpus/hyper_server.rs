//! A server of hyper. It answers every request that the library accepts, once its body has been
//! read, with the content of the file if that is known.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// A running server. It ends when it is dropped.
pub(crate) struct HyperServer {
    pub(crate) address: SocketAddr,
    _runtime: Runtime,
}

impl HyperServer {
    /// Starts it on a free port.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_io()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        runtime.spawn(accept(listener));
        Ok(Self {
            address,
            _runtime: runtime,
        })
    }

    /// The version of the library: that of the lock file.
    pub(crate) fn version() -> String {
        let lock = include_str!("../../../../Cargo.lock");
        let (_, rest) = lock.split_once("name = \"hyper\"\nversion = \"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let connection =
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
        // A request that the library refuses is an error, after its answer.
        tokio::spawn(async { drop(connection.await) });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Text>, hyper::Error> {
    let content: &[u8] = match request.uri().path() {
        "/probe" => b"<probe>",
        "/smuggled" => b"<smuggled>",
        _ => b"<index>",
    };
    let mut body = request.into_body();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        frame?;
    }
    Ok(Response::new(Text(Some(Bytes::from_static(content)))))
}

/// The body of a response.
struct Text(Option<Bytes>);

impl Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
