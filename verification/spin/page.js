// docs/model-checking.md, made of the report.
import { table } from "../support/markdown.js";
import { PROPERTIES } from "./properties.js";
import { storyText, textOf } from "./report.js";

/** @typedef {import("./report.js").Report & { date: string, commit: string, machine: string }} Kept */

/** @param {Kept} kept */
export function pageOf(kept) {
  const { configurations, variants, date, commit, machine } = kept;
  const total = configurations.reduce((sum, { states }) => sum + states, 0);
  const wordsOf = (/** @type {string} */ name) =>
    PROPERTIES.find((property) => property.name === name)?.words ?? name;
  const stories = variants.map(
    ({ name, mistake, broken, story }) =>
      `### ${name}\n\n${mistake} It breaks: *${wordsOf(broken ?? "nothing")}*\n\n\`\`\`txt\n${storyText(story)}\n\`\`\``,
  );
  return `# Model checking

Tests, the simulation and the histories sample what can happen. A model checker visits every state that a model can reach, so it also
finds the interleaving that no sample has drawn. The protocol of a lease is modelled in \`verification/spin/\` for the model checker
[SPIN](https://spinroot.com). This command explores the model and its broken variants, in two to three minutes on two idle cores and with up to 5 GB:

\`\`\`sh
npm run verify -- spin
\`\`\`

It needs SPIN and a C compiler; on Debian, the packages \`spin\`, \`gcc\` and \`libc6-dev\`. \`npm run verify -- spin --page\` also writes this page, and
\`npm run test:tier -- processes\` explores the smallest configuration and three variants.

**In ${total.toLocaleString("en-US")} states, every property of the protocol holds. Each of ${variants.length} broken variants breaks the property that it must.** The run was on
${date.slice(0, 10)} at commit \`${commit}\`, on ${machine}.

## What is modelled

| part | file | what it does |
|---|---|---|
| clients | \`client.pml\` | acquire, repeat an acquire under the same lease id, wait, renew, check and write, release, give up; are killed |
| store | \`store.pml\` | decides each request in one step, as \`lease/rules.ts\` and \`lease/queue.ts\` specify: grants, tokens, expiry, the wait queue |
| a store that loads and saves | \`store-loads.pml\` | decides as \`store-kit/\` does: on what it has loaded, and a save stands only if that still is so; others act in between |
| protected resource | \`client.pml\` | takes writes, and refuses a smaller token than it has seen |
| network | \`world.pml\` | loses requests and answers, and delivers requests late or twice |
| operator | \`world.pml\` | revokes a grant, at its expiry or now |
| time | \`world.pml\` | ticks for all clocks at once, except that the clock of one client may miss ticks |

- Each process may pause between any two steps for any time, in particular between the check of a lease and the write. So does a request
  on its way.
- The store counts the TTL from the step that grants. The holder counts from the tick in which it sent the request, and epsilon less.
- Time counts down to deadlines, and not up from zero. So a run of any length has finitely many states.
- With sessions, as in etcd, ZooKeeper and Consul, a grant ends with the session of its client. A sign of life lengthens the session, but
  not the client's trust.

## The properties

These are the words of [Guarantees](guarantees.md#in-every-engine). The model checks all but the last one in every step, and the last one as a formula
of temporal logic.

${table(
  ["property", "words"],
  PROPERTIES.map(({ name, words }) => [`\`${name}\``, words]),
)}

- *Trust*: a client whose grant was revoked *now* is exempt, as the guarantees say. Only the fence protects then, and the model checks that it does.
- *The last one* assumes that no process is paused for ever, except for clients that were killed.

## The bounds

Within its bounds, a configuration is explored completely; nothing is sampled, and no state is represented by a hash alone.

| bound | meaning |
|---|---|
| clients | clients that want the resource. A lease is for one resource, and resources share nothing, so one is enough |
| leases | acquires of each client, each under a lease id of its own |
| TTL | ticks of a grant. Epsilon is 1 tick, a session 4, a reservation 1, and a queue position lasts 2 |
| faults | requests and answers that are lost, late or repeated |
| copies | requests on their way at a time that no caller waits for |
| revokes, kills | actions of the operator; clients that are killed |

## What the command prints

\`\`\`txt
${textOf(kept)}
\`\`\`

## Broken variants

A property that nothing can break shows nothing. In each variant one thing is wrong, and the model checker finds what follows from it. The
stories of the safety properties are the shortest that it found.

${stories.join("\n\n")}

## A limit of repeated acquires

The model has one behaviour that the rules allow and that is easy to overlook. A store keeps the last grant of a resource. So a copy of an acquire
that arrives after its grant has ended *and* after another client's grant is decided anew, and gets a second grant under its lease id. That
grant has a larger token, no client uses it, and it ends after its TTL. No property is broken: it costs waiting time, as an
[unknown outcome](learn/unknown-outcomes.md) may.

## What is not modelled

- The code. The model is written by hand, after the same rules. [The simulation, the histories and the chaos runs](reliability.md) examine the code.
- More clients, faults or grants than the bounds allow.
- Engines that lose what they have answered, and clocks that jump: [Guarantees](guarantees.md) says what follows then.
- How an engine makes its steps atomic, and where its tokens come from. The model's token is the last one plus 1.
- Kubernetes, where each contender measures the expiry by watching the record.
- Tasks, elections and shards. They are clients of leases.
`;
}
