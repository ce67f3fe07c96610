//! Black-box tests of Curtail.
