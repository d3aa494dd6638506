//! Traces and metrics of `queue` through OpenTelemetry.
//!
//! [`traces`] connects the spans of enqueues and attempts. [`observer`] turns events into counters and histograms. It
//! asks no database. [`gauges`] shows what [`Admin::gauges`](queue::admin::Admin::gauges) has read.
//!
//! This crate works with opentelemetry 0.33 and tracing-opentelemetry 0.34. With others, nothing is connected.
#![doc = include_str!("../README.md")]

mod metrics;
mod traces;

pub use metrics::{gauges, observer};
pub use traces::{Traces, traces};
