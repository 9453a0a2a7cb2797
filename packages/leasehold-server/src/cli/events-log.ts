/**
 * Writes what happens to leases and tasks to the server's log, as docs/logs.md describes. The names of
 * events are stable, fields have the names of the HTTP API, and no field contains a lease id.
 */
import type { Logger } from "leasehold";
import type { TaskEvent } from "leasehold/internal";
import { withoutLeaseIds } from "leasehold/internal";
import type { LeaseEvent } from "../http/index.js";

type Level = "debug" | "info" | "warn";

/** The operation after which an event is emitted. */
const OPERATIONS = {
  acquired: "acquire",
  held: "acquire",
  renewed: "renew",
  lost: "renew",
  released: "release",
  notHeld: "release",
  revoked: "revoke",
} as const satisfies Record<Exclude<LeaseEvent["type"], "failed">, string>;

/** Events that explain an incident are `info`. Events of normal operation are `debug`. */
export function logLeaseEvent(logger: Logger, event: LeaseEvent): void {
  const { requestId, resource, actor } = event;
  const durationMs = Math.round(event.tookMs * 100) / 100;
  const operation = "operation" in event ? event.operation : OPERATIONS[event.type];
  const log = (level: Level, name: string, fields: object) =>
    logger[level](
      {
        event: name,
        operation,
        resource,
        ...fields,
        durationMs,
        requestId,
        ...(actor && { actor }),
      },
      name.replaceAll("_", " "),
    );
  switch (event.type) {
    case "acquired": {
      const { holder, grantId, token, ttlMs, replaced } = event;
      if (replaced?.state === "expired") {
        const { holder: ownerId, grantId: expired, token: fencingToken } = replaced;
        log("info", "lock_expired", { ownerId, grantId: expired, fencingToken });
      }
      const grant = { ownerId: holder, grantId, fencingToken: token };
      log("info", "lock_acquired", { ...grant, ttlSeconds: ttlMs / 1_000 });
      return;
    }
    case "held": {
      const { holder, heldBy, grantId, token: fencingToken } = event;
      log("debug", "lock_contended", { ownerId: holder, heldBy, grantId, fencingToken });
      return;
    }
    case "renewed": {
      const { grantId, token, ttlMs } = event;
      log("debug", "lock_renewed", { grantId, fencingToken: token, ttlSeconds: ttlMs / 1_000 });
      return;
    }
    case "lost": {
      const { grantId, token: fencingToken, reason } = event;
      log("info", "lock_renewal_failed", { grantId, fencingToken, reason });
      return;
    }
    case "released":
      log("info", "lock_released", { grantId: event.grantId, fencingToken: event.token });
      return;
    // Waiters that time out release too, and that needs no line.
    case "notHeld":
      return;
    case "revoked":
      log("info", "lock_revoked", { fencingToken: event.token, free: event.free });
      return;
    case "failed": {
      const { grantId, applied, code, message } = event;
      const error = withoutLeaseIds(message);
      log("warn", "lock_failed", { grantId, applied, code, error });
      return;
    }
  }
}

/** The events of a task that succeeds are frequent, so they are `debug`. */
const TASK_LEVELS: Readonly<Record<TaskEvent["type"], Level>> = {
  enqueued: "debug",
  claimed: "debug",
  renewed: "debug",
  completed: "debug",
  returned: "debug",
  failed: "info",
  refused: "info",
  expired: "info",
  late: "info",
  cancelled: "info",
  retried: "info",
};

export function logTaskEvent(logger: Logger, { type, ...event }: TaskEvent): void {
  const line: Record<string, unknown> = { event: `task_${type}` };
  for (const [key, value] of Object.entries<unknown>(event)) {
    line[HTTP_NAMES[key] ?? key] = typeof value === "string" ? withoutLeaseIds(value) : value;
  }
  logger[TASK_LEVELS[type]](line, `task ${type}`);
}

const HTTP_NAMES: Readonly<Record<string, string>> = {
  holder: "processor",
  previousHolder: "previousProcessor",
  token: "fencingToken",
};
