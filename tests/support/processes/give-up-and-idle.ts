/** A program that connects to a server of another kind, and prints what keeps its process alive then. */
import { connect } from "../../../packages/leasehold/src/index.js";

/** The sockets are closed within a few of them; their own timeouts take seconds. */
const TURNS = 50;
const HELD_BY = ["TCPSocketWrap", "TLSWrap", "Timeout"];

const [url = ""] = process.argv.slice(2);
// A busy machine takes longer to find out what answers.
const patient = { connectTimeoutMs: 60_000 };
const error: unknown = await connect(url, patient).catch((error: unknown) => error);
let held: string[] = [];
for (let turn = 0; turn < TURNS; turn += 1) {
  await new Promise((resolve) => setImmediate(resolve));
  held = process.getActiveResourcesInfo().filter((name) => HELD_BY.includes(name));
}
const code = error instanceof Error && "code" in error ? error.code : undefined;
console.log(JSON.stringify({ code, held }));
process.exit();
