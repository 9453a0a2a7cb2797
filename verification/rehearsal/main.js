// Starts what deploy/compose/compose.yaml says, as processes of this machine, and shows how the fleet takes losses: the
// leading generator and a server are killed, an alert fires and ends, a server is deployed anew.
//
//   npm run verify -- rehearsal            takes about three minutes
//   npm run verify -- rehearsal --json     the steps, one JSON object a line
//
// It needs Prometheus (Debian: apt-get install prometheus). There is no Grafana here: its part is left out. Ends with 1
// if a step does not come, with 130 at Ctrl-C, when it has ended what it started.
import { fileURLToPath } from "node:url";
import pc from "picocolors";
import { openSources } from "../../scripts/support/sources.js";
import { argumentsOf } from "../support/arguments.js";

const { values } = argumentsOf(import.meta.url, { options: { json: { type: "boolean" } } });
const FILE = fileURLToPath(new URL("../../deploy/compose/compose.yaml", import.meta.url));

const sources = await openSources();
const { Fleet } = await sources.load("/verification/rehearsal/fleet.ts");
const { story } = await sources.load("/verification/rehearsal/story.ts");

const stopping = new AbortController();
process.once("SIGINT", () => {
  console.error("stopped; ending what was started");
  stopping.abort();
});

const fleet = await Fleet.of(FILE);
try {
  for (const { name, image } of fleet.left) {
    if (!values.json)
      console.log(pc.dim(`         ${name} is left out: there is no ${image} here`));
  }
  for await (const step of story(fleet, stopping.signal)) {
    const seconds = `${(step.afterMs / 1_000).toFixed(1)} s`.padStart(8);
    console.log(values.json ? JSON.stringify(step) : `${pc.dim(seconds)} ${step.what}`);
    if (stopping.signal.aborted) break;
  }
} catch (error) {
  if (!stopping.signal.aborted) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
} finally {
  await fleet.end();
  await sources.close();
}
if (stopping.signal.aborted) process.exitCode = 130;
