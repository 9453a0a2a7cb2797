// Holds leases until it is killed: node holder.js URL PREFIX COUNT TTL_MS
import { connect } from "leasehold";

const [url = "", prefix = "", count = "1", ttlMs = "1000"] = process.argv.slice(2);
const leases = await connect(url, { defaults: { ttlMs: Number(ttlMs) } });
await Promise.all(
  Array.from({ length: Number(count) }, (_, at) => leases.acquire(`${prefix}-${at}`)),
);
process.send?.("held");
