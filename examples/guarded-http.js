/**
 * An HTTP service that refuses writes of a client that has lost its lease.
 *
 *   node examples/guarded-http.js [URL]
 *
 * URL says where the leases are kept (postgres://..., redis://..., etcd://..., consul://..., http://127.0.0.1:4040
 * while `npm start` runs); without one, PGlite in this process.
 *
 * A paused worker gets 412 with both tokens, its successor gets 204, and a request without a token gets
 * 428.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "leasehold";
import { fencing, memoryGuard } from "leasehold/fence";
import { openSource } from "./support/source.js";

const RESOURCE = "example-tenant:7";

/** The guard of the service. Several instances behind one address would use sqlGuard(...). */
const store = memoryGuard({
  onRefused: ({ token, lastToken }) => console.log(`refused: token ${token} after ${lastToken}`),
});
const guarded = fencing({ store, resource: () => RESOURCE });
/** @type {string[]} */
const written = [];
const server = createServer(
  guarded.node((request, response) => {
    written.push([request.headers["x-worker"]].flat().join());
    response.statusCode = 204;
    response.end();
  }),
);
server.listen(0, "127.0.0.1");
await once(server, "listening");
const address = /** @type {import("node:net").AddressInfo} */ (server.address());

/**
 * @param {string} worker
 * @param {number} [token]
 */
async function write(worker, token) {
  const said = token === undefined ? {} : { "fencing-token": String(token) };
  const headers = { "x-worker": worker, ...said };
  const url = `http://127.0.0.1:${address.port}/`;
  const response = await fetch(url, { method: "PUT", headers });
  const { type } = response.ok ? { type: "" } : /** @type {any} */ (await response.json());
  console.log(`${worker} is answered ${[response.status, type].join(" ").trim()}`);
}

const { source, close } = await openSource(process.argv[2]);
const [slow, quick] = await Promise.all([
  connect(source, { holder: "slow" }),
  connect(source, { holder: "quick" }),
]);
// Without renewal, as in a paused process.
const late = await slow.acquire(RESOURCE, { ttlMs: 500, autoRenew: false });
await write("slow", late.token);
await quick.run(RESOURCE, (lease) => write("quick", lease.token));
await write("slow", late.token);
await write("anonymous");
console.log(`written by ${written.join(", ")}; refusals: ${store.refusals}`);

await Promise.all([slow.close(), quick.close()]);
await close();
server.closeAllConnections();
server.close();
