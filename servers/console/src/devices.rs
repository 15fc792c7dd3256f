//! Asks the first task for the devices that make a console.

use crate::screen::{Format, Screen};
use musubi::Error;
use musubi::abi::boot::output::MEMORY;
use musubi::abi::boot::{DeviceRecord, device};
use musubi::interfaces::devices::{DevicesClient, RECORD};
use musubi::rt::section::{Device, Ports};
use zerocopy::FromBytes;

pub struct Devices(DevicesClient);

impl Devices {
    pub fn find() -> Result<Devices, Error> {
        DevicesClient::bind_with_args(musubi::names::lookup("devices")?, 4096).map(Devices)
    }

    fn claim(&self, kind: u64) -> Result<DeviceRecord, Error> {
        let mut record = [0; RECORD];
        self.0.claim(kind, 0, &mut record)?;
        DeviceRecord::read_from_bytes(&record).map_err(|_| Error::BadArgument)
    }

    pub fn ports(&self, kind: u64) -> Result<Ports, Error> {
        self.claim(kind).map(|record| Ports(record.section))
    }

    /// The memory that an `exec` shares with the host, if there is as much as there should be.
    pub fn shared(&self) -> Option<Device> {
        let record = self.claim(device::EXEC_MEMORY).ok()?;
        Device::open(record.section).ok().filter(|memory| memory.len() >= MEMORY as u64)
    }

    /// The framebuffer with a text screen on it, if there is one of a form that we know.
    pub fn screen(&self) -> Option<(Device, Screen)> {
        let record = self.claim(device::FRAMEBUFFER).ok()?;
        let memory = Device::open(record.section).ok()?;
        let format = Format {
            width: usize::try_from(record.a).ok()?,
            height: usize::try_from(record.b).ok()?,
            pitch: usize::try_from(record.c).ok()?,
            bytes: match record.d {
                24 => 3,
                32 => 4,
                _ => return None,
            },
        };
        let fits = (format.pitch as u64).checked_mul(format.height as u64)? <= memory.len();
        (fits && format.width * format.bytes <= format.pitch).then(|| (memory, Screen::new(format)))
    }
}
