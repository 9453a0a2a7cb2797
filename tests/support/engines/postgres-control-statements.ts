/** The statements of the control stores in PostgreSQL: audit, API keys, pauses, limits, history. */
import { CHAIN_BEGIN } from "../../../packages/leasehold/src/control/index.js";
import { type Call, sql } from "./postgres-statements.js";

const namespace = "default";
const resource = "report";
const digest = "0".repeat(64);
const key = {
  id: "0123456789ab",
  namespace,
  name: "deploy",
  role: "viewer" as const,
  prefixes: [],
  digest,
  lifetimeMs: null,
};
const pause = { namespace, kind: "resource" as const, name: resource };
const entry = {
  namespace,
  actor: "key:0123456789ab",
  action: "lease.revoke",
  target: resource,
  reason: null,
  phase: "done" as const,
  details: "{}",
};
const ended = {
  namespace,
  resource,
  holder: "web-1",
  grantId: "0123456789abcdef",
  token: 1,
  state: "released" as const,
  ttlMs: 30_000,
  remainingMs: 0,
  grantedAt: "2026-01-01T00:00:00.000Z",
  renewedAt: null,
  expiresAt: "2026-01-01T00:00:30.000Z",
  metadata: null,
};

export const CONTROL_CALLS: readonly Call[] = [
  [
    ({ control }) => control.audit.append([entry]),
    sql(
      "control-bounded",
      "Bounds how long the transaction of an operator action waits for locks, and holds them while idle.",
    ),
    sql("control-audit-head-locked", "Locks the end of the audit chain, then reads the time.", "", [
      { ...CHAIN_BEGIN, at: "2030-01-01T00:00:00.000Z" },
    ]),
    sql(
      "control-audit-add",
      "Adds entries to the audit, and moves the end of the chain.",
      "seqs ats namespaces actors actions targets reasons phases details hashes lastSeq lastHash",
    ),
  ],
  [
    ({ control }) => control.audit.list({ namespace: null }),
    sql(
      "control-audit-list",
      "Reads a page of the audit, the latest entry first.",
      "limit mostPassed",
    ),
  ],
  [
    ({ control }) =>
      control.audit.list({ namespace, target: resource, actions: ["lease.revoke"], cursor: "7" }),
    sql(
      "control-audit-list-filtered",
      "Like control-audit-list, with every filter: each adds its condition. A page by actions passes over a bounded number of entries.",
      "limit mostPassed namespace target beforeSeq actions",
    ),
  ],
  [
    ({ control }) => control.audit.read(0, 100),
    sql("control-audit-read", "Reads the audit chain in its order.", "afterSeq limit"),
  ],
  [
    ({ control }) => control.audit.head(),
    sql("control-audit-head", "Reads the end of the audit chain.", "", [CHAIN_BEGIN]),
  ],
  [
    ({ control }) => control.keys.find(key.id),
    sql("control-keys-find", "Reads an API key with its digest.", "id"),
  ],
  [
    ({ control }) => control.keys.any(),
    sql("control-keys-any", "Reads whether any API key has not ended."),
  ],
  [
    ({ control }) => control.keys.existed(),
    sql(
      "control-keys-existed",
      "Reads whether an API key was ever created; ended ones are collected, the audit is not.",
    ),
  ],
  [
    ({ control }) => control.keys.list({ namespace: null }),
    sql("control-keys-list", "Reads a page of API keys, the newest first.", "limit"),
  ],
  [
    ({ control }) => control.keys.list({ namespace, cursor: `1.${key.id}` }),
    sql(
      "control-keys-list-filtered",
      "Like control-keys-list, for one namespace and after a cursor.",
      "limit namespace cursorMicros cursorId",
    ),
  ],
  [
    ({ control }) => control.actors.keys.add(key),
    sql(
      "control-keys-lock",
      "Locks the API keys of a namespace against concurrent additions.",
      "namespace",
    ),
    sql(
      "control-keys-add",
      "Adds an API key unless the namespace has too many that have not ended.",
      "id namespace name role prefixes digest lifetimeMs most queues",
    ),
  ],
  [
    ({ control }) =>
      control.actors.keys.rotate({
        namespace,
        id: key.id,
        overlapMs: 0,
        successor: { id: key.id, digest },
      }),
    sql(
      "control-keys-rotate",
      "Locks an API key that has not ended, to replace it.",
      "namespace id",
    ),
  ],
  [
    ({ control }) => control.actors.keys.revoke(namespace, key.id),
    sql("control-keys-end", "Ends an API key, at once or after a while.", "namespace id inMs"),
  ],
  [
    ({ control }) => control.keys.noteUsed([key.id]),
    sql("control-keys-note-used", "Notes that API keys are in use.", "ids everyMs"),
  ],
  [
    ({ control }) => control.keys.collect(60_000),
    sql("control-keys-collect", "Deletes API keys that ended long ago.", "olderThanMs limit"),
  ],
  [
    ({ control }) => control.pauses.list(null),
    sql("control-pauses-list", "Reads the pauses of a namespace, or of all.", "namespace"),
  ],
  [
    ({ control }) => control.actors.pauses.set({ ...pause, actor: "cli:ops", reason: "upgrade" }),
    sql(
      "control-pauses-resource",
      "Marks a resource as paused in its lease row, which acquires read.",
      "namespace resource",
    ),
    sql(
      "control-pauses-set",
      "Writes a pause: who set it, when and why.",
      "namespace kind name actor reason",
      [pause],
    ),
  ],
  [
    ({ control }) => control.actors.pauses.clear(pause),
    sql(
      "control-pauses-resume",
      "Removes the mark of a paused resource, and wakes the first waiter.",
      "namespace resource",
    ),
    sql("control-pauses-clear", "Deletes a pause.", "namespace kind name"),
  ],
  [
    ({ control }) => control.limits.read(namespace),
    sql("control-limits-read", "Reads the limits of a namespace.", "namespace"),
  ],
  [
    ({ control }) => control.actors.limits.set(namespace, { leases: 100 }),
    sql(
      "control-limits-set",
      "Sets the limits that are named. The others stay.",
      "namespace setsLeases leases setsTasks tasks setsRate ratePerSecond",
    ),
  ],
  [
    ({ generator }) => generator.write(namespace, { running: true }),
    sql(
      "control-generator-write",
      "Sets what the generator does. Null keeps the old value.",
      "namespace running ratePerSecond",
    ),
    sql("control-generator-read", "Reads what the generator does.", "namespace"),
  ],
  [
    ({ history }) => history.append([ended]),
    sql(
      "control-history-append",
      "Adds ended grants to the history, each once.",
      "namespaces resources grantIds holders tokens states ttlMs grantedAt renewedAt expiresAt metadata",
    ),
  ],
  [
    ({ history }) => history.list({ namespace }),
    sql(
      "control-history-list",
      "Reads a page of ended grants, the newest first.",
      "namespace limit",
    ),
  ],
  [
    ({ history }) => history.list({ namespace, resource, states: ["expired"], cursor: "2.1" }),
    sql(
      "control-history-list-filtered",
      "Like control-history-list, with every filter: each adds its condition.",
      "namespace resource states cursorToken cursorId limit",
    ),
  ],
  [
    ({ history }) => history.find(ended, ended.grantId),
    sql("control-history-find", "Reads one ended grant.", "namespace resource grantId"),
  ],
  [
    ({ history }) => history.collect(60_000),
    sql("control-history-collect", "Deletes ended grants that are old.", "olderThanMs limit"),
  ],
];
