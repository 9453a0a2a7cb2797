/** Adds one to a cell, again and again, and prints each answer of the cell before it goes on. */
import { writeSync } from "node:fs";
import { Cell } from "../../../examples/custom-store/cell.js";

const STDOUT = 1;
const cell = new Cell(process.argv[2] ?? "");
await cell.open(0);
for (let tries = 0; tries < Number(process.argv[3]); tries += 1) {
  const read = await cell.read();
  const answer = await cell.swap(read, read.value + 1);
  // console.log() would queue lines while the reader is slow, and a SIGKILL would lose them.
  writeSync(STDOUT, `${answer}\n`);
}
