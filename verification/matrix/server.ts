/** A server of ours as a process, to be killed and started again: server.js PORT STORE */
import { openStores } from "leasehold";
import { createApp, listen } from "leasehold-server";
import { TEST_LIMITS } from "../../tests/support/server/test-limits.js";

process.on("disconnect", () => process.exit());
const [, , port, store = ""] = process.argv;
const app = createApp({
  ...(await openStores(store)),
  auth: "none",
  version: "0.0.0",
  limits: TEST_LIMITS,
});
await listen({ app, port: Number(port) });
console.log("listening");
