/** Calls that send every statement of the control stores in PostgreSQL: audit, API keys, pauses, limits, history. */
import { GeneratorState } from "../../../packages/leasehold-server/src/generator/state.js";
import type { Call } from "./postgres-store-calls.js";

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
  ({ control }) => control.audit.append([entry]),
  ({ control }) => control.audit.list({ namespace: null }),
  ({ control }) =>
    control.audit.list({ namespace, target: resource, actions: ["lease.revoke"], cursor: "7" }),
  ({ control }) => control.audit.read(0, 100),
  ({ control }) => control.audit.head(),
  ({ control }) => control.keys.find(key.id),
  ({ control }) => control.keys.any(),
  ({ control }) => control.keys.existed(),
  ({ control }) => control.keys.list({ namespace: null }),
  ({ control }) => control.keys.list({ namespace, cursor: `1.${key.id}` }),
  ({ control }) => control.actors.keys.add(key),
  ({ control }) =>
    control.actors.keys.rotate({
      namespace,
      id: key.id,
      overlapMs: 0,
      successor: { id: key.id, digest },
    }),
  ({ control }) => control.actors.keys.revoke(namespace, key.id),
  ({ control }) => control.keys.noteUsed([key.id]),
  ({ control }) => control.keys.collect(60_000),
  ({ control }) => control.pauses.list(null),
  ({ control }) => control.actors.pauses.set({ ...pause, actor: "cli:ops", reason: "upgrade" }),
  ({ control }) => control.actors.pauses.clear(pause),
  ({ control }) => control.limits.read(namespace),
  ({ control }) => control.actors.limits.set(namespace, { leases: 100 }),
  ({ backing }) => new GeneratorState(backing).write(namespace, { running: true }),
  ({ backing }) => new GeneratorState(backing).read(namespace),
  ({ history }) => history.append([ended]),
  ({ history }) => history.list({ namespace }),
  ({ history }) => history.list({ namespace, resource, states: ["expired"], cursor: "2.1" }),
  ({ history }) => history.find(ended, ended.grantId),
  ({ history }) => history.collect(60_000),
];
