// Imports what the arguments name, and works in memory.
import * as library from "leasehold";
import { exercise } from "./exercise.mjs";

for (const entry of process.argv.slice(2)) {
  const names = Object.keys(await import(entry));
  if (names.length === 0) throw new Error(`${entry} exports nothing`);
}
const leasehold = await library.connect("memory:");
await exercise(library, leasehold, { hasTasks: true });
await leasehold.close();
