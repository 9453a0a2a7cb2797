// Requires what the arguments name, and works in memory.
for (const entry of process.argv.slice(2)) {
  const names = Object.keys(require(entry));
  if (names.length === 0) throw new Error(`${entry} exports nothing`);
}
const library = require("leasehold");
const { exercise } = require("./exercise.mjs");

void (async () => {
  const leasehold = await library.connect("memory:");
  await exercise(library, leasehold, { hasTasks: true });
  await leasehold.close();
})();
