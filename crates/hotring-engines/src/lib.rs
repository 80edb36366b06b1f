//! Research engines for the HotRing index, moved here from `hotring-index`.
#![forbid(unsafe_code)]
