/** Operator calls on rows that another transaction has locked: they are tried again until it ends. */
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { retryingControl } from "../../packages/leasehold/src/control/operations.js";
import { silentLogger, systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect, defineTask, type Leasehold } from "../../packages/leasehold/src/index.js";
import { openPostgres, postgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";

const ACT = { namespace: "default", actor: "ada", target: "t", reason: "it hangs" };

describePostgres("on PostgreSQL, while another transaction holds the row", () => {
  let url: string;
  let drop: () => Promise<void>;
  let other: pg.Client;
  let client: Leasehold;
  /** Called when a failed call is about to be tried again. */
  let onRetry = () => {};
  const debug = (_: object, message?: string) => {
    if (message === "the store failed; asking it again") onRetry();
  };
  const env = { ...systemEnv, logger: { ...silentLogger, debug } };
  const mail = defineTask("mail");

  beforeAll(async () => {
    ({ url, drop } = await freshDatabase());
    client = await connect(postgres({ url }), { env });
    other = new pg.Client({ connectionString: url });
    await other.connect();
  });
  afterAll(async () => {
    await other.end();
    await client.close();
    await drop();
  });

  /** Locks rows, and ends the transaction when the call is tried again. */
  async function whileLocked<T>(lock: string, call: () => Promise<T>): Promise<T> {
    await other.query("BEGIN");
    await other.query(`${lock} FOR UPDATE`);
    const ended = new Promise<unknown>((resolve, reject) => {
      onRetry = () => {
        onRetry = () => {};
        other.query("COMMIT").then(resolve, reject);
      };
    });
    const value = await call();
    await ended;
    return value;
  }

  const SCHEDULE = "SELECT FROM leasehold.schedule WHERE name = 's'";
  const taskOf = (id: string) => `SELECT FROM leasehold.task WHERE id = '${id}'`;

  it("runs a schedule now", async () => {
    await client.tasks.schedule("s", { everyMs: 3_600_000, kind: "report", data: 1 });
    const id = await whileLocked(SCHEDULE, () => client.tasks.schedules.runNow("s"));
    expect(await client.tasks.get(id ?? "")).toMatchObject({ kind: "report" });
  });

  it("cancels, retries and deletes a task", async () => {
    const { id } = await client.tasks.enqueue(mail, {});
    const lock = taskOf(id);
    expect(await whileLocked(lock, () => client.tasks.cancel(id))).toMatchObject({ status: "ok" });
    expect(await whileLocked(lock, () => client.tasks.retry(id))).toMatchObject({ status: "ok" });
    expect(await whileLocked(lock, () => client.tasks.delete(id))).toMatchObject({ status: "ok" });
  });

  it("revokes a lease", async () => {
    const lease = await client.acquire("r");
    const lock = "SELECT FROM leasehold.lease WHERE resource = 'r'";
    const revoked = await whileLocked(lock, () => client.revoke("r", { free: "now" }));
    expect(revoked).toMatchObject({ status: "revoked", token: lease.token });
    await lease.release();
  });

  it("does it with its entry in the audit, once", async () => {
    const database = await openPostgres({ url }, env);
    const control = retryingControl(database.control, env);
    const { id } = await client.tasks.enqueue(mail, {});
    const key = { namespace: "default", id };
    const cancelled = await whileLocked(taskOf(id), () =>
      control.perform({ ...ACT, action: "task.cancel" }, async ({ tasks }) => {
        const [outcome] = await tasks.cancel([key]);
        return { value: outcome?.status, details: {} };
      }),
    );
    expect(cancelled).toBe("ok");
    const ran = await whileLocked(SCHEDULE, () =>
      control.perform({ ...ACT, action: "schedule.run" }, async ({ schedules }) => {
        const run = { namespace: "default", name: "s", taskId: "by-hand" };
        return { value: (await schedules.runNow(run)).status, details: {} };
      }),
    );
    expect(ran).toBe("enqueued");
    const { items } = await control.audit.list({ namespace: "default" });
    expect(items.map(({ action }) => action)).toEqual(["schedule.run", "task.cancel"]);
    await database.close();
  });
});
