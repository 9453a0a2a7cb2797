/** What the rules load and save in one transaction. No rule is stated here. */
import { grantIdOf } from "../../env/index.js";
import type { Key, LeaseRecord } from "../../lease/index.js";
import {
  type Change,
  EMPTY_QUEUE,
  type Loaded,
  type LoadedQueue,
  type Transaction,
} from "../../store-kit/index.js";
import type { SqliteFile } from "./connection.js";

/** Longer than any process takes to look for notices. */
const NOTICES_KEPT_MS = 60_000;

export class SqliteTransaction implements Transaction {
  readonly #sql: SqliteFile["sql"];
  readonly nowMs: number;
  /** Looked up once: most of the time no one waits anywhere. */
  #hasWaiters: boolean;
  /** Whether a waiter is to be woken. */
  hasNotified = false;

  constructor({ sql, env }: SqliteFile) {
    this.#sql = sql;
    this.nowMs = Math.floor(env.clock.wall());
    this.#hasWaiters = sql.anyWaiter.get() !== undefined;
  }

  load({ namespace, resource }: Key, leaseId: string | undefined): Loaded<null> {
    const record = recordOf(this.#sql.load.get(namespace, resource));
    const floor = this.#sql.floor.get(namespace) as { token: number } | undefined;
    return {
      record,
      version: null,
      isPaused: false,
      leastToken: Math.max((floor?.token ?? 0) + 1, this.nowMs * 1_000),
      queue: this.#hasWaiters ? this.#queue(namespace, resource, leaseId) : EMPTY_QUEUE,
    };
  }

  save({ namespace, resource, record, joins, served, withdrawn, wakes }: Change<null>): void {
    if (record) {
      const { leaseId, holder, token, ttlMs, ended, metadata } = record;
      const { grantedAtMs, renewedAtMs, expiresAtMs } = record;
      const grant = [namespace, resource, leaseId, holder, token, ttlMs, grantedAtMs] as const;
      this.#sql.save.run(...grant, renewedAtMs, Math.ceil(expiresAtMs), ended, metadata);
    }
    for (const { leaseId, holder, expiresAtMs } of joins) {
      this.#sql.forget.run(namespace, resource, leaseId, this.nowMs);
      this.#sql.join.run(namespace, resource, leaseId, holder, Math.ceil(expiresAtMs));
      this.#hasWaiters = true;
    }
    if (served !== null) {
      this.#sql.serve.run(namespace, resource, namespace, resource, served);
    }
    for (const leaseId of withdrawn) this.#sql.leave.run(namespace, resource, leaseId);
    if (wakes && this.#hasWaiters) this.#wakeFirst(namespace, resource);
  }

  #queue(namespace: string, resource: string, leaseId: string | undefined): LoadedQueue {
    const { first, count, own, ahead } = this.#sql;
    const head = first.get(namespace, resource, this.nowMs) as { holder: string } | undefined;
    if (!head) return EMPTY_QUEUE;
    const { n } = count.get(namespace, resource, this.nowMs) as { n: number };
    const positions = new Map<string, { ahead: number; expiresAtMs: number }>();
    const mine = own.get(namespace, resource, leaseId ?? null, this.nowMs) as Own | undefined;
    if (leaseId !== undefined && mine) {
      const { n: before } = ahead.get(namespace, resource, this.nowMs, mine.place) as { n: number };
      positions.set(leaseId, { ahead: before, expiresAtMs: mine.expiresAtMs });
    }
    return { count: n, firstHolder: head.holder, positions };
  }

  #wakeFirst(namespace: string, resource: string): void {
    const first = this.#sql.first.get(namespace, resource, this.nowMs);
    if (!first) return;
    const wakes = grantIdOf((first as { leaseId: string }).leaseId);
    this.#sql.forgetNotices.run(this.nowMs - NOTICES_KEPT_MS);
    this.#sql.notify.run(namespace, resource, wakes, this.nowMs);
    this.hasNotified = true;
  }
}

interface Own {
  readonly place: number;
  readonly expiresAtMs: number;
}

/** The columns have the names of a record. */
export function recordOf(row: unknown): LeaseRecord | null {
  return row ? (row as LeaseRecord) : null;
}
