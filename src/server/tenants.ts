/** What a tenant has of an instance: its claims that wait, and the events that are followed. */
import type { Env } from "../env/index.js";
import type { LeaseStore } from "../lease/index.js";
import { Ready, type TaskStore } from "../tasks/index.js";
import { EventHub } from "./events.js";

export interface Tenant {
  readonly ready: Ready;
  readonly events: EventHub;
}

/** Made when first asked for, and kept: there are as many as have keys, and an idle one does nothing. */
export class Tenants {
  readonly #make: (namespace: string) => Tenant;
  readonly #tenants = new Map<string, Tenant>();

  constructor(env: Env, leases: LeaseStore, tasks: TaskStore) {
    this.#make = (namespace) => ({
      ready: new Ready(tasks, namespace, env),
      events: new EventHub({ env, namespace, leases, tasks }),
    });
  }

  of(namespace: string): Tenant {
    let tenant = this.#tenants.get(namespace);
    if (!tenant) {
      tenant = this.#make(namespace);
      this.#tenants.set(namespace, tenant);
    }
    return tenant;
  }

  /** Ends their waits and streams. */
  async close(): Promise<void> {
    const ended = [...this.#tenants.values()].flatMap(({ ready, events }) => [
      ready.close(),
      events.close(),
    ]);
    await Promise.all(ended);
  }
}
