#!/bin/sh
# The lock service and the lease service over HTTP, each route once, with nothing but curl and sed.
#
#   sh examples/locks-with-curl.sh [URL]
#
# URL is the server's: by default $LEASEHOLD_URL, or http://127.0.0.1:4040, which `npm start` and
# `npx leasehold serve` open.
#
# You will see each request, and below it the status and the body of its answer: a lock that is
# taken, refused to somebody else, renewed, listed, released and taken with a larger token; then
# leases, by resource and holder, and what remains to be seen of them when they have ended.
set -eu
server=${1:-${LEASEHOLD_URL:-http://127.0.0.1:4040}}
run=$$

# ask METHOD PATH [BODY]
ask() {
  echo
  echo "$1 $2${3+ $3}"
  answer=$(curl --silent --show-error --write-out '\n%{http_code}' --request "$1" "$server$2" \
    ${3+--header 'content-type: application/json' --data "$3"})
  echo "  ${answer##*
} ${answer%
*}"
}

# field NAME: its value in the last answer
field() {
  echo "$answer" | sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"
}

echo "# Locks"
billing="tenant_123:billing-close:$run"

ask POST /v1/locks/acquire '{"resource":"'"$billing"'","ownerId":"worker-7","ttlSeconds":60}'
lease_id=$(field leaseId)
# Whatever the holder writes carries this: what it writes to refuses a smaller one.
token=$(field fencingToken)

ask POST /v1/locks/acquire '{"resource":"'"$billing"'","ownerId":"worker-8","ttlSeconds":60}'
ask POST "/v1/locks/$lease_id/renew" '{"ttlSeconds":60}'
ask GET "/v1/locks/$lease_id"
ask GET "/v1/locks?prefix=$billing"
ask DELETE "/v1/locks/$lease_id"
ask POST "/v1/locks/$lease_id/renew"

ask POST /v1/locks/acquire '{"resource":"'"$billing"'","ownerId":"worker-8","ttlSeconds":60}'
echo "  the token has grown: $(test "$(field fencingToken)" -gt "$token" && echo yes || echo no)"
ask DELETE "/v1/locks/$(field leaseId)"

echo
echo "# Leases"
printer="printer-$run"

ask POST /api/leases '{"resource":"'"$printer"'","holder":"worker-7"}'
id=$(field id)
ask POST /api/leases '{"resource":"'"$printer"'","holder":"worker-8"}'
ask PUT /api/leases/renew '{"resource":"'"$printer"'","holder":"worker-7"}'
ask GET '/api/leases?limit=1'
ask GET '/api/leases/active?limit=1'
ask GET '/api/leases/renewed?limit=1'
ask DELETE /api/leases/release '{"resource":"'"$printer"'","holder":"worker-7"}'
ask GET "/api/leases/$id"
ask GET '/api/leases/released?limit=1'

# Nobody renews this one.
ask POST /api/leases '{"resource":"scanner-'"$run"'","holder":"worker-7","ttlMs":1000}'
sleep 2
ask GET '/api/leases/expired?limit=1'

ask POST /api/leases '{"resource":"'"$printer"'","holder":"worker-8"}'
ask DELETE "/api/leases/$(field id)" '{"resource":"'"$printer"'","holder":"worker-8"}'
