#!/bin/sh
# Makes the certificates of the TLS tests anew, valid from 2020 to 2120. Needs openssl.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cat >"$work/ca.conf" <<CONF
[ca]
default_ca = tests
[tests]
database = $work/index
new_certs_dir = $work
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[root]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[leaf]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
subjectAltName = DNS:localhost,IP:127.0.0.1
CONF
: >"$work/index"
sign() { # name, extensions, issuer
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$1.key" -out "$work/$1.csr" 2>/dev/null
    openssl ca -batch -notext -config "$work/ca.conf" -extensions "$2" -in "$work/$1.csr" -out "$1.pem" \
        -startdate 20200101000000Z -enddate 21200101000000Z $3 2>/dev/null
}
sign ca root "-selfsign -keyfile ca.key"
sign other-ca root "-selfsign -keyfile other-ca.key"
for name in server server-2 client; do
    sign $name leaf "-cert ca.pem -keyfile ca.key"
done
sign stranger leaf "-cert other-ca.pem -keyfile other-ca.key"
# Nobody signs any more.
rm ca.key other-ca.key other-ca.pem
