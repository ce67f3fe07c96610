//! `/`: a list of the pages, for people.

const START: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>Curtail</title>
<style>
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { max-width: 40rem; margin: 3rem auto; padding: 0 1rem }
dt { font-family: ui-monospace, monospace }
dd { margin: 0 0 .75rem }
</style>
<h1>Curtail</h1>
<dl>
";

/// Writes the list of `pages`, each with its path and its description.
pub(super) fn write(pages: impl Iterator<Item = (&'static str, &'static str)>, out: &mut Vec<u8>) {
    out.extend_from_slice(START.as_bytes());
    for (path, description) in pages {
        let row = format!("<dt><a href=\"{path}\">{path}</a></dt><dd>{description}</dd>\n");
        out.extend_from_slice(row.as_bytes());
    }
    out.extend_from_slice(b"</dl>\n</html>\n");
}
