#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

pub mod boot;
pub mod layout;
