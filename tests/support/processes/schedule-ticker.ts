/** A process that declares a schedule and ticks, until it is ended. */
import { connect, defineTask } from "leasehold";

export interface TickerSettings {
  readonly url: string;
  readonly everyMs: number;
}

const { url, everyMs } = JSON.parse(process.argv[2] ?? "") as TickerSettings;
const leasehold = await connect(url);
await leasehold.tasks.schedule("beat", {
  everyMs,
  kind: "beat",
  data: null,
  catchUp: { most: 1_000 },
  overlap: "allow",
});
// Its worker is for another kind: whether the tasks run does not matter.
leasehold.tasks.work([defineTask("other").handle(() => null)]);
console.log("ticks");
