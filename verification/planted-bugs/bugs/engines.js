/** The transactions of etcd, ZooKeeper and Kubernetes. */
import { conformance, integration, unit } from "../checks.js";

const PARTS = "packages/leasehold/src/stores/etcd/transactions-parts.ts";
const etcdSuite = (name) => conformance("tests/conformance/etcd.test.ts", name);

export const ETCD = [
  {
    name: "etcd-put-without-compare",
    what: "A change is written without comparing the entry that it is based on.",
    file: PARTS,
    find: "compare: [...unchanged(place, entry), ...given],",
    by: "compare: [...given],",
    check: etcdSuite("64 acquirers of a key that was just freed: one wins"),
  },
  {
    name: "etcd-compare-record-only",
    what: "The record is compared but not the lock key, which etcd itself deletes when a lease ends.",
    file: "packages/leasehold/src/stores/etcd/records.ts",
    find: 'create_revision: "0",\n        },\n  ];',
    by: 'create_revision: "0",\n        },\n  ].slice(0, 1) as Compare[];',
    check: integration("tests/interop/etcd-interop.test.ts"),
  },
  {
    name: "etcd-lock-without-lease",
    what: "The lock key is attached to no engine lease, and outlives its dead holder.",
    file: PARTS,
    find: "value: lock.value,\n              lease: lock.lease,",
    by: "value: lock.value,",
    check: etcdSuite("grants anew no earlier than the expiry, and then does"),
  },
  {
    name: "etcd-renewed-under-the-old-lease",
    what: "A renewal is written down, but the lock key stays under the engine lease that is about to end.",
    file: "packages/leasehold/src/stores/etcd/decide.ts",
    find: "lock: { put: owner.key, lease: lease.id, value: owner.value },",
    by: "lock: { put: owner.key, lease: owner.lease, value: owner.value },",
    check: etcdSuite("extends a grant"),
  },
  {
    name: "etcd-anybodys-lock-is-ours",
    what: "The lock of another client is taken for that of our last grant.",
    file: "packages/leasehold/src/stores/etcd/records.ts",
    find: "return entry.owner !== null && entry.owner.createRevision === entry.record?.token;",
    by: "return entry.owner !== null && entry.record !== null;",
    check: integration("tests/interop/etcd-interop.test.ts"),
  },
  {
    name: "etcd-queue-by-name",
    what: "Waiters are served in the order of their random names.",
    file: "packages/leasehold/src/stores/etcd/wait-queue.ts",
    find: 'sort_target: "CREATE",',
    by: 'sort_target: "KEY",',
    check: etcdSuite("serves waiters in the order of their arrival"),
  },
  {
    name: "etcd-release-by-name",
    what: "A release deletes the lock key of any holder.",
    file: "packages/leasehold/src/stores/etcd/decide.ts",
    find: "if (record?.leaseId !== leaseId) return withdrawn(entry, leaseId, place);",
    by: "if (!record) return withdrawn(entry, leaseId, place);",
    check: etcdSuite("that comes late does not free the successor"),
  },
  {
    name: "etcd-lease-end-counts-from-answer",
    what: "The end of an engine lease counts from the answer, not from the call.",
    file: "packages/leasehold/src/stores/etcd/engine-leases.ts",
    find: "endsMs: sentMs + grantedMs }",
    by: "endsMs: this.#clock.monotonic() + grantedMs }",
    check: unit("packages/leasehold/src/stores/etcd/engine-leases.test.ts"),
  },
];

export const ZOOKEEPER = [
  {
    name: "zookeeper-order-by-name",
    what: "Contenders are sorted by their whole names, which begin with a random UUID.",
    file: "packages/leasehold/src/stores/zookeeper/keys.ts",
    find: ".sort((a, b) => (a.place < b.place ? -1 : 1))\n    .map(({ name }) => name);",
    by: ".sort((a, b) => (a.name < b.name ? -1 : 1))\n    .map(({ name }) => name);",
    check: unit("packages/leasehold/src/stores/zookeeper/keys.test.ts"),
  },
  {
    name: "zookeeper-renewal-over-a-mark",
    what: "A renewal overwrites any version, and with it an operator's mark of a revocation.",
    file: "packages/leasehold/src/stores/zookeeper/decide.ts",
    find: "const stat = await talk.link.setData(node.path, data, node.version, talk.deadlineMs);",
    by: "const stat = await talk.link.setData(node.path, data, -1, talk.deadlineMs);",
    check: conformance(
      "tests/conformance/zookeeper.test.ts",
      "is refused after a revoke, before and after others take over",
    ),
  },
  {
    name: "zookeeper-session-from-the-answer",
    what: "The session is computed from the last response, not from what the leader knows.",
    file: "packages/leasehold/src/stores/zookeeper/connection-lifetime.ts",
    find: "return (reported?.sentMs ?? Number.NEGATIVE_INFINITY) + this.sessionTimeoutMs;",
    by: "return (reported?.answeredMs ?? Number.NEGATIVE_INFINITY) + this.sessionTimeoutMs;",
    check: unit(
      "packages/leasehold/src/stores/zookeeper/connection.test.ts",
      "computes the session's lifetime",
    ),
  },
  {
    name: "zookeeper-waiter-never-extended",
    what: "A waiter that attempts again loses its position all the same.",
    file: "packages/leasehold/src/stores/zookeeper/wait-queue.ts",
    find: "    if (known) known.untilMs = Math.max(known.untilMs, untilMs);\n    else {\n",
    by: "    if (!known) {\n",
    check: conformance(
      "tests/conformance/zookeeper.test.ts",
      "keeps the position of a waiter that attempts again",
    ),
  },
];

export const KUBERNETES = [
  {
    name: "kubernetes-age-restarts-at-each-poll",
    what: "The age of a record is counted from the last poll, so it never expires.",
    file: "packages/leasehold/src/stores/kubernetes/observations.ts",
    find: "receivedMs: last && isLast ? last.receivedMs : nowMs,",
    by: "receivedMs: nowMs,",
    check: conformance("tests/conformance/kubernetes.test.ts"),
  },
  {
    name: "kubernetes-conflict-unnoticed",
    what: "The answer that another writer was faster is taken for that of a write.",
    file: "packages/leasehold/src/stores/kubernetes/transactions.ts",
    find: "if (answer.status >= 300) return false;",
    by: "if (answer.status >= 500) return false;",
    check: conformance("tests/conformance/kubernetes.test.ts", "one wins"),
  },
];

const consulSuite = (name) => conformance("tests/conformance/consul.test.ts", name);

export const CONSUL = [
  {
    name: "consul-record-without-compare",
    what: "The record is put whatever it has become, so a renewal overwrites a revocation.",
    file: "packages/leasehold/src/stores/consul/decide.ts",
    find: 'return { verb: "cas", key: place.record, index: recordIndex, value: encodeRecord(record) };',
    by: 'return { verb: "set" as "cas", key: place.record, value: encodeRecord(record) };',
    check: integration("tests/faults/consul-faults.test.ts", "does not overwrite another"),
  },
  {
    name: "consul-anybodys-lock-is-ours",
    what: "The lock of another client is taken for that of our last grant.",
    file: "packages/leasehold/src/stores/consul/records.ts",
    find: "return entry.owner !== null && entry.owner.index === entry.record?.token;",
    by: "return entry.owner !== null && entry.record !== null;",
    check: integration("tests/interop/consul-interop.test.ts"),
  },
  {
    name: "consul-expiry-left-to-the-session",
    what: "The holder's client does not end its grant when the TTL is over.",
    file: "packages/leasehold/src/stores/consul/decide.ts",
    find: 'const change = ending(entry, "expired", world, place);',
    by: 'if (place) return { outcome: { status: "notHeld" } };\n  const change = ending(entry, "expired", world, place);',
    check: consulSuite("grants anew no earlier than the expiry, and then does"),
  },
  {
    name: "consul-queue-by-name",
    what: "Waiters are served in the order of their random names.",
    file: "packages/leasehold/src/stores/consul/records.ts",
    find: "waiters: waiters.sort((a, b) => a.createIndex - b.createIndex),",
    by: "waiters: waiters.sort((a, b) => (a.id < b.id ? -1 : 1)),",
    check: consulSuite("serves waiters in the order of their arrival"),
  },
  {
    name: "consul-session-from-the-answer",
    what: "The session is trusted for a TTL after the answer, not after the call.",
    file: "packages/leasehold/src/stores/consul/connection-session.ts",
    find: "this.#id = id;\n    this.#lastsUntilMs = sentMs + sessionTtlMs;",
    by: "this.#id = id;\n    this.#lastsUntilMs = env.clock.monotonic() + sessionTtlMs;",
    check: unit("packages/leasehold/src/stores/consul/connection-session.test.ts"),
  },
  {
    name: "consul-session-with-checks",
    what: "The session is made with Consul's default check, and ends with the health of its node.",
    file: "packages/leasehold/src/stores/consul/connection-session.ts",
    find: '      LockDelay: "0s",\n      NodeChecks: [],\n',
    by: '      LockDelay: "0s",\n',
    check: integration("tests/faults/consul-faults.test.ts", "only the latter ends sessions"),
  },
  {
    name: "consul-default-lock-delay",
    what: "Consul's default delay keeps all clients out for 15 s after the end of a session.",
    file: "packages/leasehold/src/stores/consul/connection-session.ts",
    find: '      LockDelay: "0s",\n      NodeChecks: [],\n',
    by: "      NodeChecks: [],\n",
    check: integration("tests/faults/consul-faults.test.ts", "a session that an operator destroys"),
  },
  {
    name: "consul-stale-reads",
    what: "Reads are not consistent, so a leader that has lost the others confirms renewals.",
    file: "packages/leasehold/src/stores/consul/connection.ts",
    find: 'query: writes ? {} : { consistent: "" },',
    by: "query: {},",
    check: integration("tests/faults/consul-faults.test.ts", "confirms no renewal, and no grant"),
  },
  {
    name: "consul-silent-agent-kept",
    what: "After an agent that stays silent, the next call asks the same one.",
    file: "packages/leasehold/src/stores/consul/connection.ts",
    find: "if (this.#at === at && (isOverdue || error instanceof StoreUnavailableError)) {",
    by: "if (this.#at === at && error instanceof StoreUnavailableError) {",
    check: unit("packages/leasehold/src/stores/consul/connection.test.ts"),
  },
  {
    name: "consul-write-sent-again",
    what: "A write whose answer was lost is sent to the next agent, though it may have been applied.",
    file: "packages/leasehold/src/stores/consul/connection.ts",
    find: 'if (error.outcome === "unknown" && !call.repeatable) throw error;',
    by: "",
    check: unit("packages/leasehold/src/stores/consul/connection.test.ts"),
  },
  {
    name: "consul-release-by-name",
    what: "A release deletes the lock key of any holder of the same session.",
    file: "packages/leasehold/src/stores/consul/decide.ts",
    find: "if (record?.identity !== identityOf(grant.leaseId)) return withdraw(entry, grant, world, place);",
    by: "if (!record) return withdraw(entry, grant, world, place);",
    check: consulSuite("that comes late does not free the successor"),
  },
  {
    name: "consul-flags-as-a-number",
    what: "The flags of `consul lock` pass through a number, which rounds them.",
    file: "packages/leasehold/src/stores/consul/connection-api.ts",
    find: 'replaceAll(\'"Flags":"lock"\', `"Flags":${LOCK_FLAGS}`)',
    by: 'replaceAll(\'"Flags":"lock"\', `"Flags":${Number(LOCK_FLAGS)}`)',
    check: integration("tests/interop/consul-interop.test.ts"),
  },
  {
    name: "consul-semaphore-unnoticed",
    what: "A lock key without a session counts as free, although a semaphore of `consul lock` keeps it.",
    file: "packages/leasehold/src/stores/consul/records.ts",
    find: "const isSemaphore = pair?.Flags === SEMAPHORE_FLAGS;",
    by: "const isSemaphore = false;",
    check: integration("tests/interop/consul-interop.test.ts", "a semaphore of"),
  },
  {
    name: "consul-batch-fails-together",
    what: "One rejected operation of a transaction refuses all requests that share it.",
    file: "packages/leasehold/src/stores/consul/transactions.ts",
    find: "    for (const [{ one }, whats] of failedOf(some, failed)) {",
    by: "    for (const { one } of some) {\n      const whats = failed.map(({ what }) => what);\n      one.outcome = failedOutcome(new Error(whats[0]));",
    check: consulSuite(),
  },
];
