/**
 * A bill that is sent once, whatever happens: three processes want to send it, one after the other, and one of them fails.
 *
 *   node examples/bill-once.js [URL]
 *
 * URL says where the records are kept (postgres://...); without one, PGlite in this process, which the three share.
 *
 * You will see `run` send the bill three times, because it excludes others only while the work goes on, and `once` send it
 * once. A first attempt that fails is not the one that counts.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "leasehold";
import { openSource } from "./support/source.js";

const { source, close } = await openSource(process.argv[2]);
const names = ["web-1", "web-2", "web-3"];
const clients = await Promise.all(names.map((holder) => connect(source, { holder })));

/**
 * Each of the three starts a little later than the one before.
 * @param {(client: import("leasehold").Leasehold) => Promise<unknown>} start
 */
async function inTurn(start) {
  const starts = clients.map(async (client, at) => {
    await sleep(at * 300);
    await start(client);
  });
  await Promise.all(starts);
}

let sent = 0;
await inTurn((client) => client.run("example-bill", () => (sent += 1)));
console.log(`with run: ${sent} bills`);

const key = `example-bill/${Date.now()}`;
sent = 0;
let attempts = 0;
await inTurn(async (client) => {
  try {
    const bill = await client.once(key, async () => {
      attempts += 1;
      if (attempts === 1) throw new Error("the printer is out of paper");
      sent += 1;
      return { number: 17 };
    });
    console.log(
      bill.ran
        ? `${client.holder} sent bill ${bill.value.number}`
        : `${client.holder}: bill ${bill.value?.number} was sent by ${bill.by}`,
    );
  } catch (error) {
    console.log(`${client.holder}: ${error instanceof Error ? error.message : error}`);
  }
});
console.log(`with once: ${sent} bill`);

await Promise.all(clients.map((client) => client.close()));
await close();
