#!/usr/bin/env bash
# Builds target/debian/quietcore_VERSION_ARCH.deb: programs, manual pages, completions, units, documentation.
# It needs cargo-deb, which is not installed here: cargo install cargo-deb --locked
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { printf 'build-deb: %s\n' "$*" >&2; exit 1; }
command -v dpkg-deb >/dev/null || fail "dpkg-deb is missing: this is no Debian"
cargo deb --version >/dev/null 2>&1 || fail "cargo-deb is missing: cargo install cargo-deb --locked"

cargo build --release --locked --workspace

# What the package holds beside the programs, made by the program itself.
assets=target/deb-assets
rm -rf "$assets"
mkdir -p "$assets/man" "$assets/completions"
target/release/quietcore generate man "$assets/man"
gzip -9n "$assets"/man/*.1
target/release/quietcore generate completions bash >"$assets/completions/quietcore"
target/release/quietcore generate completions zsh >"$assets/completions/_quietcore"
target/release/quietcore generate completions fish >"$assets/completions/quietcore.fish"
target/release/quietcore rules schema >"$assets/rule.schema.json"
target/release/quietcore plan schema >"$assets/plan.schema.json"

cargo deb --no-build "$@"
