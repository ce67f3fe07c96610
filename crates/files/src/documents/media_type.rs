//! Media types, by the extension of a name.

/// The type of a file whose extension is unknown.
const UNKNOWN: &str = "application/octet-stream";

/// Extensions in lower case, with their types (IANA's registry of media types). Text is taken to
/// be UTF-8.
const TYPES: [(&str, &str); 36] = [
    ("avif", "image/avif"),
    ("bin", UNKNOWN),
    ("bmp", "image/bmp"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/vnd.wave"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "text/xml; charset=utf-8"),
    ("zip", "application/zip"),
];

/// The media type of a file with this name.
pub(super) fn media_type(name: &[u8]) -> &'static str {
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    let Some(dot) = file.iter().rposition(|&byte| byte == b'.') else {
        return UNKNOWN;
    };
    let extension = &file[dot + 1..];
    let mut types = TYPES.iter();
    types
        .find(|(known, _)| extension.eq_ignore_ascii_case(known.as_bytes()))
        .map_or(UNKNOWN, |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_extension_decides() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.c/LOGO.PNG", "image/png"),
            ("a.tar.gz", "application/gzip"),
            ("a.png/README", UNKNOWN),
            ("README", UNKNOWN),
            ("a.", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(media_type(name.as_bytes()), expected, "{name}");
        }
    }
}
