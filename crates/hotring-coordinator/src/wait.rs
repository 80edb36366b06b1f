//! Waiting for one of two things.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// What ended first.
pub(crate) enum First<A, B> {
    /// The first future.
    A(A),
    /// The second one.
    B(B),
}

/// Waits for the future that ends first, and drops the other. If both are ready, the first one counts.
pub(crate) async fn first<A, B>(
    a: impl Future<Output = A>,
    b: impl Future<Output = B>,
) -> First<A, B> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(move |cx| match a.as_mut().poll(cx) {
        Poll::Ready(a) => Poll::Ready(First::A(a)),
        Poll::Pending => b.as_mut().poll(cx).map(First::B),
    })
    .await
}
