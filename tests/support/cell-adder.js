/** Adds one to a cell, again and again, and says each time what the cell answered. */
import { Cell } from "../../examples/custom-store/cell.js";

const cell = new Cell(process.argv[2] ?? "");
await cell.open(0);
for (let tries = 0; tries < Number(process.argv[3]); tries += 1) {
  const read = await cell.read();
  console.log(await cell.swap(read, read.value + 1));
}
