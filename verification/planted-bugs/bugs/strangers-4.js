/** Planted by a fourth author who had seen no test, after the tests had been extended for what the third set had shown to be missing. */
const LEASEHOLD = "packages/leasehold/src";
const STORES = `${LEASEHOLD}/stores`;
const SERVER = "packages/leasehold-server/src/http";
export const STRANGERS_4 = [
  // lease, once, fence, election, shards
  {
    name: "stranger-acquire-all-waits-per-lease",
    what: "acquireAll gives each of its leases the whole waitMs instead of what is left of it, so a call with waitMs of 5 s may hold some leases and wait for 15 s.",
    file: `${LEASEHOLD}/lease/lease-group.ts`,
    find: `      for (const resource of ordered) {
        taken.set(resource, await acquire(resource, Math.max(0, leftMs())));
      }`,
    by: `      const waitMs = Math.max(0, leftMs());
      for (const resource of ordered) taken.set(resource, await acquire(resource, waitMs));`,
  },
  {
    name: "stranger-reusable-acquire-shares-released-attempt",
    what: "An acquire() of a reusable lease that is called after release(), while an earlier acquire() is under way, shares that earlier attempt: it resolves to true although the release then gives the lease back.",
    file: `${LEASEHOLD}/lease/reusable-lease.ts`,
    find: `    // An acquire called after this one must not share an attempt begun before it.
    this.#acquiring = undefined;
`,
    by: "",
  },
  {
    name: "stranger-once-free-key-ignores-ttl",
    what: "once() ignores its option ttlMs when the key is free, so the work runs under a lease of the default length, and after a crash the next caller waits for that long.",
    file: `${LEASEHOLD}/once/once.ts`,
    find: "withoutUndefined({ ...terms, signal }),",
    by: "withoutUndefined({ marginMs, signal }),",
  },
  {
    name: "stranger-shards-read-one-page",
    what: "A group of shards reads only the first page of its leases: at a server, whose pages have 200, owners() shows every further shard as without a holder, and members beyond the 200th get no shards.",
    file: `${LEASEHOLD}/election/shards.ts`,
    find: `    const views: LeaseView[] = [];
    let cursor: string | null = null;
    do {
      const query = { prefix, states: ["live"] as const, limit: 1_000 };
      const page = await this.#leases.list(cursor === null ? query : { ...query, cursor });
      views.push(...page.items);
      cursor = page.nextCursor;
    } while (cursor !== null);
    return views;`,
    by: `    const query = { prefix, states: ["live"] as const, limit: 1_000 };
    const { items } = await this.#leases.list(query);
    return [...items];`,
  },
  {
    name: "stranger-singleton-never-forgets-its-failures",
    what: "The restart pause of a singleton keeps doubling over its whole life: work that has failed a few times, days apart, pauses for a minute before each further restart.",
    file: `${LEASEHOLD}/election/singleton.ts`,
    find: `      // Work that has run for a while starts the doubling over.
      if (clock.monotonic() - startedAtMs > maxRestartDelayMs) pauseMs = restartDelayMs;
`,
    by: "",
  },
  {
    name: "stranger-sql-guard-ignores-schema",
    what: "sqlGuard with the option schema checks tokens with the function and table of the schema leasehold, so it fails where there is none, or shares its tokens with another application's guard.",
    file: `${LEASEHOLD}/fence/sql.ts`,
    find: "await fence(tx, resource, token, { namespace, schema }).catch(",
    by: "await fence(tx, resource, token, { namespace }).catch(",
  },

  // stores
  {
    name: "stranger-http-lists-beyond-a-page",
    what: "A list of schedules or of records of once that asks for more than 200 items through a server is refused as invalid, instead of answering with a page and a cursor as other stores do.",
    file: `${STORES}/http/schedules.ts`,
    find: "const asked = limit === undefined ? undefined : Math.min(limit, BOUNDS.page);",
    by: "const asked = limit;",
    also: [
      {
        file: `${STORES}/http/once.ts`,
        find: "      limit: limit === undefined ? undefined : Math.min(limit, BOUNDS.page),",
        by: "      limit,",
      },
    ],
  },
  {
    name: "stranger-http-actions-without-actor",
    what: "Operator actions on schedules and on keys of once that go through a server do not carry who claims to act, so the audit lacks the person's name.",
    file: `${STORES}/http/once.ts`,
    find: "const answer = await this.#client.send({ ...call, path, actor });",
    by: "const answer = await this.#client.send({ ...call, path });",
    also: [
      {
        file: `${STORES}/http/schedules.ts`,
        find: "      path: `${this.#pathOf(key)}${verb}${query}`,\n      actor,\n",
        by: "      path: `${this.#pathOf(key)}${verb}${query}`,\n",
      },
    ],
  },
  {
    name: "stranger-http-events-split-characters",
    what: "A client of a server mangles a resource or queue name with non-ASCII letters in an event if the letter's bytes arrive in two chunks, so its waiter is not woken.",
    file: `${STORES}/http/watch.ts`,
    find: "parser.feed(decoder.decode(chunk.value, { stream: true }));",
    by: "parser.feed(decoder.decode(chunk.value));",
  },
  {
    name: "stranger-redis-cluster-keeps-dead-node",
    what: "After a node of a Redis cluster has died and its replica has taken over, the client goes on asking the dead node, so the leases in its slots stay unavailable until the process restarts.",
    file: `${STORES}/redis/connection-servers.ts`,
    find: "if (!redirection) this.#refresh(node);",
    by: 'if (redirection?.kind === "MOVED") this.#refresh();',
  },
  {
    name: "stranger-zookeeper-list-stops-at-limit",
    what: "A list in ZooKeeper whose page is full at the end of a round of reads has no cursor, so with the default page only the first 100 of many leases are ever shown.",
    file: `${STORES}/zookeeper/views.ts`,
    find: "at < names.length && found.length <= limit; at += READ_AT_ONCE",
    by: "at < names.length && found.length < limit; at += READ_AT_ONCE",
  },
  {
    name: "stranger-kubernetes-names-collide",
    what: "In Kubernetes the resource eu/orders of the namespace shop and the resource orders of the namespace shop/eu are given one Lease object, so one tenant's lease makes the other's impossible.",
    file: `${STORES}/kubernetes/keys.ts`,
    find: "return withDigest(readable, JSON.stringify([namespace, resource]), LONGEST_NAME);",
    by: "return withDigest(readable, `${namespace}/${resource}`, LONGEST_NAME);",
  },
  {
    name: "stranger-postgres-enqueue-same-id-twice",
    what: "Two tasks with the same id and different data in one call to PostgreSQL are both reported as enqueued, although only one of them exists, instead of a conflict for the other.",
    file: `${STORES}/postgres/task-enqueue.ts`,
    find: "if (keys.has(key) && asked.get(key) === 1) enqueued(entry);",
    by: "if (keys.has(key)) enqueued(entry);",
  },
  {
    name: "stranger-etcd-page-repeats-last-lease",
    what: "Each further page of a list in etcd begins with the last lease of the page before, so leases appear twice, and a list with limit 1 never ends.",
    file: `${STORES}/etcd/views.ts`,
    find: "if (after !== null && folder + after >= start) start = `${folder}${after}\\0`;",
    by: "if (after !== null && folder + after >= start) start = folder + after;",
  },

  // tasks, schedules, keys, workers
  {
    name: "stranger-worker-close-requeues-at-once",
    firstMissed: true,
    what: "A worker that closes requeues the tasks of running handlers in the same moment in which it aborts their signals, so a handler that stops at the signal and returns its output is refused, and its task runs again.",
    file: `${LEASEHOLD}/tasks/worker.ts`,
    find: "    await this.#settled(AFTER_ABORT_MS);\n",
    by: "",
  },
  {
    name: "stranger-unstorable-output-is-retried",
    what: "A task whose output the store will never accept is tried again until its attempts are used up, with all its effects, instead of being dead after the first.",
    file: `${LEASEHOLD}/tasks/completer.ts`,
    find: "return this.fail(lease, { ...grant, error, retryInMs: null, final: true });",
    by: "return this.fail(lease, { ...grant, error, retryInMs: null, final: false });",
  },
  {
    name: "stranger-scheduled-tasks-of-first-version",
    what: "The tasks of a schedule are marked with version 1 whatever the version of their definition, so handlers upgrade data that is current already.",
    file: `${LEASEHOLD}/tasks/schedules/declaration.ts`,
    find: `  const { version = FIRST_VERSION } = definition;
  const declaration = {`,
    by: `  const version = FIRST_VERSION;
  const declaration = {`,
  },
  {
    name: "stranger-schedule-tick-on-the-dot",
    what: "A schedule that is looked at in the very millisecond of a fire time passes over that fire time until the next one, and then counts it as skipped.",
    file: `${LEASEHOLD}/tasks/schedules/rules.ts`,
    find: "let atMs = times.previous(untilMs + 1);",
    by: "let atMs = times.previous(untilMs);",
  },
  {
    name: "stranger-key-obeys-oldest-declaration",
    what: "In memory a concurrency key follows the limit, rate and order that its oldest pending task declares, so a new limit has no effect until the whole backlog of the key has run.",
    file: `${STORES}/memory/task-keys.ts`,
    find: "    const [newest] = this.#pending.backFrom();",
    by: "    const [newest] = this.#pending.from();",
  },
  {
    name: "stranger-postgres-merged-heartbeat-drops-checkpoint",
    what: "If two heartbeats of one task meet in a batch of PostgreSQL, the checkpoint and progress of the earlier one are confirmed but never stored when the later one has none.",
    file: `${STORES}/postgres/task-outcomes.ts`,
    find: "return { ...earlier, ...later, ttlMs };",
    by: "return { ...later, ttlMs };",
  },
  {
    name: "stranger-server-forgets-final-failures",
    what: "A handler behind a server that throws a FinalTaskError has its task tried again all the same, because neither the single nor the batch route passes `final` on.",
    file: `${SERVER}/native/tasks-routes.ts`,
    find: "{ ...grant, error, retryInMs, final },",
    by: "{ ...grant, error, retryInMs },",
    also: [
      {
        file: `${SERVER}/native/task-batches-routes.ts`,
        find: "        retryInMs,\n        final,\n      }));",
        by: "        retryInMs,\n      }));",
      },
    ],
  },
  {
    name: "stranger-server-heartbeat-of-any-ttl",
    what: "A heartbeat through a server may ask for any ttlMs, beyond the server's longest, so the task of a worker that dies afterwards stays blocked for days.",
    file: `${SERVER}/native/tasks-routes.ts`,
    find: "ttlOf(ttlField, asked.ttlMs, services.ttl.tasks);",
    by: "asked.ttlMs ?? ttlOf(ttlField, undefined, services.ttl.tasks);",
    also: [
      {
        file: `${SERVER}/native/task-batches-routes.ts`,
        find: "ttlMs: ttlOf(`${index}.${ttlField}`, ttlMs, services.ttl.tasks),",
        by: "ttlMs: ttlMs ?? ttlOf(ttlField, undefined, services.ttl.tasks),",
      },
    ],
  },

  // server
  {
    name: "stranger-claims-of-gone-callers-stay",
    what: "Tasks that a server claims for a caller that has gone, or whose key has ended while it waited, are not requeued, so they idle until their leases expire and count as crashed.",
    file: `${SERVER}/native/tasks-routes.ts`,
    find: `      if (outcome.status === "claimed") await requeue(services, caller.namespace, outcome.tasks);
`,
    by: "",
    also: [
      {
        file: `${LEASEHOLD}/tasks/ready.ts`,
        find: `          if (signal?.aborted && !repeatable) {
            await this.#requeue(outcome.tasks);
            return NOTHING;
          }
`,
        by: "",
      },
    ],
  },
  {
    name: "stranger-session-keeps-last-rule",
    what: "A person in two groups that role rules name has in the console the rights of the last rule instead of those of the first, so an admin signs in as a viewer, or the other way round.",
    file: `${SERVER}/auth/oidc/roles.ts`,
    find: "if (found.length > 0) kept[claim] = [...textsOf(claim, kept[claim]), ...found];",
    by: "if (found.length > 0) kept[claim] = found;",
  },
  {
    name: "stranger-access-audit-falls-silent",
    what: "The bounds on audit entries about refusals and reads are never reset: after ten denials of one actor, ever, no further one is entered, and none is counted as left out, until the server restarts.",
    file: `${SERVER}/operations/access-audit.ts`,
    find: "      this.#periods.delete(namespace);\n",
    by: "",
  },
  {
    name: "stranger-pause-shares-read-under-way",
    what: "An instance that is asked to pause a prefix or queue while it reads the pauses takes that earlier read for its own, so it answers that the pause is set and still grants for a second.",
    file: `${SERVER}/operations/pauses.ts`,
    find: `    this.#next = undefined;
    this.#reading = this.#read();
    await this.#reading;`,
    by: `    this.#reading = this.#read();
    await this.#reading.finally(() => {
      this.#next = undefined;
    });`,
  },
  {
    name: "stranger-actor-header-not-encoded",
    what: "The claimed actor is sent and read as it is instead of percent-encoded, so an operator whose name has letters beyond Latin-1 cannot act through a server, and the encoded names of other clients are audited as %C5%81.",
    file: `${STORES}/http/connection.ts`,
    find: "{ [ACTOR_HEADER]: encodeURIComponent(call.actor) }",
    by: "{ [ACTOR_HEADER]: call.actor }",
    also: [
      {
        file: `${SERVER}/operations/operator-action.ts`,
        find: "const claimed = ActorId.safeParse(decoded(text));",
        by: "const claimed = ActorId.safeParse(text);",
      },
    ],
  },
  {
    name: "stranger-full-tenant-cannot-rotate",
    what: "A tenant that has as many keys as it may have cannot replace one by a rotation without an overlap, although the old key ends at once and makes room for the new one.",
    file: `${STORES}/memory/control-api-keys.ts`,
    find: "const made = insert(order, overlapMs === 0 ? MOST_KEYS + 1 : MOST_KEYS);",
    by: "const made = insert(order, MOST_KEYS);",
    also: [
      {
        file: `${STORES}/postgres/control-api-keys.ts`,
        find: "const most = overlapMs === 0 ? MOST_KEYS + 1 : MOST_KEYS;",
        by: "const most = MOST_KEYS;",
      },
    ],
  },
];
