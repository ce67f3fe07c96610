# The steps that the scripts of this folder share. Each of them includes this file.

# Exits because this machine cannot run the client. $1 says why.
skip() {
    echo "skipped: $1"
    exit 77
}

# Makes the virtual environment $1 beside $folder, and sets `environment` to it. $2 names what the
# further arguments let pip install. Of several scripts that need it at once, one makes it.
make_environment() {
    environment=$(dirname "$folder")/$1 tools=$2
    shift 2
    command -v python3 >/dev/null || skip "python3 is not installed"
    python3 -c 'import venv, ensurepip' 2>/dev/null ||
        skip "python3 cannot make virtual environments"
    wanted=$(echo "$tools" | cat - "$here/requirements.txt" | sha256sum | cut -c 1-16)
    mkdir -p "$folder"
    exec 9>"$environment.lock"
    flock 9
    if ! [ -e "$environment/$wanted" ]; then
        rm -rf "$environment"
        python3 -m venv "$environment" || skip "no virtual environment could be made"
        "$environment/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
            --retries 1 --no-compile "$@" >"$folder/pip.log" 2>&1 ||
            skip "pip could not install $tools (see $folder/pip.log)"
        touch "$environment/$wanted"
    fi
    exec 9>&-
}

# Makes the environment that the clients in Python share.
share_environment() {
    make_environment python "the clients in Python" --requirement "$here/requirements.txt"
}

# Unpacks the source of the package $1, of $version, to $2 in $folder, and sets `source` to it. The
# archive must have the SHA-256 $sha256 and contain the file $3.
unpack_source() {
    package=$1 source=$folder/$2 test=$3
    archive=$source.tar.gz
    # Until the client ends: another test may run it from the same folder.
    exec 8>"$folder/lock"
    flock 8
    if ! [ -e "$archive" ]; then
        "$environment/bin/pip" download --quiet --disable-pip-version-check --no-deps \
            --retries 1 --no-build-isolation --no-binary :all: --dest "$folder" \
            "$package==$version" >"$folder/pip.log" 2>&1 ||
            skip "pip could not download $package $version (see $folder/pip.log)"
    fi
    echo "$sha256  $archive" | sha256sum --check --quiet
    rm -rf "$source"
    tar -xzf "$archive" -C "$folder"
    [ -e "$source/$test" ] || {
        echo "$package $version came without its tests"
        exit 1
    }
}

# Downloads the Go module $1, of $version, and sets `module` to the folder of its source, which is
# read-only.
download_module() {
    command -v go >/dev/null || skip "go is not installed"
    mkdir -p "$folder"
    module=$(cd "$folder" && go mod download -json "$1@$version" 2>"$folder/go.log" |
        sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')
    [ -n "$module" ] || skip "go could not download $1 (see $folder/go.log)"
}
