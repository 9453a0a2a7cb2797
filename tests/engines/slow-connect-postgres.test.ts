/** A PostgreSQL server that takes long to accept a connection, as while hundreds of clients come at once. */
import { setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";
import { openTcpProxy } from "../support/faults/tcp-proxy.js";

/** Longer than a connection may take by default. */
const SLOW_MS = 5_500;

describePostgres("a PostgreSQL server that is slow to accept connections", () => {
  it("is waited for as long as connectTimeoutMs says", { timeout: 60_000 }, async () => {
    const database = await freshDatabase();
    const url = new URL(database.url);
    const proxy = await openTcpProxy({ port: Number(url.port) });
    url.port = `${proxy.port}`;
    const connecting = connect(url, { connectTimeoutMs: 50_000 });
    // Two for renewals, one for the tables: the next one is for notifications.
    await proxy.until(({ connections }) => connections > 3);
    proxy.hold("toClient");
    await Promise.race([connecting, delay(SLOW_MS)]);
    proxy.heal();
    const leasehold = await connecting;
    expect(await leasehold.tryAcquire("r")).not.toBeNull();
    await leasehold.close();
    await proxy.close();
    await database.drop();
  });
});
