//! Colours, and what they mean.

use super::piece::{Look, Type};

pub(super) const INK: &str = "#1f2933";
/// Of what is on a light colour that stays.
const NEAR_INK: &str = "#1f2934";
pub(super) const FADED: &str = "#5f6b79";
pub(super) const PAPER: &str = "#f4f6f8";
pub(super) const WHITE: &str = "#ffffff";
pub(super) const EDGE: &str = "#ccd3db";
pub(super) const FORBIDDEN: &str = "url(#forbidden)";
pub(super) const OFFLINE: &str = "url(#offline)";
pub(super) const UNKNOWN: &str = "url(#unknown)";
pub(super) const ISOLATED: &str = "#8a2be2";

/// One colour per node, those of Okabe and Ito darkened until white text can be read on them; they stay apart for
/// most colour-blind people. More nodes than colours begin again.
const NODES: [&str; 8] = ["#0068a5", "#b8570b", "#00805d", "#a2467f", "#5b6b1f", "#6a4fb3", "#a3263b", "#2b7a8c"];
/// The same, as a tint for what is free.
const TINTS: [&str; 8] = ["#d8e8f4", "#f8e3d0", "#d3eee5", "#f3dfeb", "#e7ebd3", "#e4def4", "#f5dade", "#d9ecf0"];

pub(super) fn node(index: usize) -> &'static str {
    NODES[index % NODES.len()]
}

pub(super) fn tint(index: usize) -> &'static str {
    TINTS[index % TINTS.len()]
}

/// Patterns for what has no colour of its own.
pub(super) const PATTERNS: &str = r##"<defs>
<pattern id="forbidden" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="6" height="6" fill="#eceff2"/><rect width="2" height="6" fill="#cdd4db"/></pattern>
<pattern id="offline" width="6" height="6" patternUnits="userSpaceOnUse">
<rect width="6" height="6" fill="#ffffff"/><path d="M0 0L6 6M6 0L0 6" stroke="#c3cad2" stroke-width="0.8"/></pattern>
<pattern id="unknown" width="5" height="5" patternUnits="userSpaceOnUse">
<rect width="5" height="5" fill="#ffffff"/><circle cx="1.5" cy="1.5" r="0.8" fill="#c3cad2"/></pattern>
</defs>
"##;

/// For readers whose screens are dark. What is on a node's colour, or on a scale of distances, stays as it is.
pub(super) const DARK: &str = r##"<style>@media (prefers-color-scheme: dark) {
rect[fill="#f4f6f8"] { fill: #12161b; stroke: #12161b }
rect[fill="#ffffff"] { fill: #1b2129 } rect[fill="#f8fafb"] { fill: #20272f } rect[fill="#e9edf1"] { fill: #303944 }
rect[fill="#eceff2"] { fill: #272e37 } rect[fill="#cdd4db"] { fill: #3b4652 }
text[fill="#1f2933"] { fill: #e6ebf1 } text[fill="#5f6b79"] { fill: #a4b0bd }
rect[stroke="#ccd3db"], rect[stroke="#d9dfe5"] { stroke: #38434f } rect[stroke="#b3bdc8"] { stroke: #56636f }
path { stroke: #4a5663 } circle { fill: #4a5663 }
rect[fill="#d8e8f4"] { fill: #16324a } rect[fill="#f8e3d0"] { fill: #4a2c13 } rect[fill="#d3eee5"] { fill: #0f3b2e }
rect[fill="#f3dfeb"] { fill: #43243a } rect[fill="#e7ebd3"] { fill: #2f3716 } rect[fill="#e4def4"] { fill: #31284f }
rect[fill="#f5dade"] { fill: #4a1c24 } rect[fill="#d9ecf0"] { fill: #173b43 }
}</style>
"##;

/// A box that holds others.
pub(super) const fn frame<'a>(fill: &'a str, line: &'a str) -> Look<'a> {
    Look { fill, line, dashed: false, round: 4.0 }
}

/// Text that begins where it is put.
pub(super) const fn plain(size: f64) -> Type<'static> {
    Type { size, colour: INK, bold: false, anchor: "start" }
}

pub(super) const fn faded(size: f64) -> Type<'static> {
    Type { colour: FADED, ..plain(size) }
}

pub(super) const fn bold(size: f64) -> Type<'static> {
    Type { bold: true, ..plain(size) }
}

/// From near (light) to far (dark), and the colour of text on it. `share`: 0 is nearest, 1 is farthest.
pub(super) fn heat(share: f64) -> (String, &'static str) {
    // Ends of a scale of one hue, so that it also reads in grey.
    let (near, far) = ([232.0, 243.0, 250.0], [8.0, 69.0, 118.0]);
    let mix = |channel: usize| (near[channel] + (far[channel] - near[channel]) * share).round() as u8;
    let colour = format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2));
    (colour, if share > 0.45 { WHITE } else { NEAR_INK })
}
