//! Decompresses a trace. Its first bytes say how it is compressed, not its name.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

/// The first bytes of a gzip member (RFC 1952, section 2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The first bytes of an xz stream (The .xz File Format 1.2.0, section 2.1.1.1).
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// The first bytes of a zstd frame (RFC 8878, section 3.1.1).
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Returns the content of a file: decompressed, if it begins as a gzip, xz or zstd file does.
///
/// # Errors
/// The compressed data is damaged or ends too early.
pub fn decompress(file: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    if file.starts_with(GZIP) {
        MultiGzDecoder::new(file.as_slice()).read_to_end(&mut content)?;
    } else if file.starts_with(XZ) {
        XzReader::new(file.as_slice(), true).read_to_end(&mut content)?;
    } else if file.starts_with(ZSTD) {
        // A file may have several frames; a decoder reads one.
        let mut rest = file.as_slice();
        while !rest.is_empty() {
            let mut frame = StreamingDecoder::new(&mut rest).map_err(io::Error::other)?;
            frame.read_to_end(&mut content)?;
        }
    } else {
        return Ok(file);
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::write::GzEncoder;
    use lzma_rust2::{XzOptions, XzWriter};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn text() -> Vec<u8> {
        (0..20_000)
            .flat_map(|n| format!("{}\n", n % 700).into_bytes())
            .collect()
    }

    fn gzip() -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&text()).unwrap();
        encoder.finish().unwrap()
    }

    fn xz() -> Vec<u8> {
        let mut writer = XzWriter::new(Vec::new(), XzOptions::default()).unwrap();
        writer.write_all(&text()).unwrap();
        writer.finish().unwrap()
    }

    fn zstd() -> Vec<u8> {
        compress_to_vec(text().as_slice(), CompressionLevel::Fastest)
    }

    #[test]
    fn each_compression_is_recognised_and_undone() {
        for compressed in [gzip(), xz(), zstd()] {
            assert!(compressed.len() < text().len() / 2);
            assert!(decompress(compressed).unwrap() == text());
        }
        assert!(decompress(text()).unwrap() == text());
    }

    #[test]
    fn files_in_several_parts_are_read_to_their_end() {
        for compressed in [gzip(), xz(), zstd()] {
            assert!(decompress(compressed.repeat(2)).unwrap() == text().repeat(2));
        }
    }

    #[test]
    fn a_file_that_ends_early_is_an_error() {
        for mut compressed in [gzip(), xz(), zstd()] {
            compressed.truncate(compressed.len() / 2);
            assert!(decompress(compressed).is_err());
        }
    }
}
