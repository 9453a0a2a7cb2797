/** What befalls the members of a cluster that elects a leader. */
import { setTimeout as delay } from "node:timers/promises";
import type { Child } from "../../../../tests/support/processes/processes.js";
import { pick } from "../draws.js";
import type { Kind } from "../site.js";
import { engine } from "./engine.js";

export interface Member {
  readonly process: Child | undefined;
  start(): Promise<void>;
  kill9(): Promise<void>;
}

export function membersKinds<M extends Member>(
  cluster: string,
  members: readonly M[],
  isLeader: (member: M) => Promise<boolean>,
): Kind[] {
  const split = async () => {
    for (;;) {
      const are = await Promise.all(members.map((one) => isLeader(one).catch(() => false)));
      const leader = members[are.indexOf(true)];
      if (leader) return { leader, followers: members.filter((one) => one !== leader) };
      await delay(100);
    }
  };
  /** Beyond the ttl, so that the others elect, and holders feel it. */
  const hit = (
    name: string,
    whom: "leader" | "follower",
    begin: (member: M) => Promise<unknown>,
    end: (member: M) => Promise<unknown>,
  ) =>
    engine(`${cluster}'s ${whom} ${name}`, async (site, random) => {
      const { leader, followers } = await split();
      const member = whom === "leader" ? leader : pick(random, followers);
      try {
        await begin(member);
        await delay(1.3 * site.ttlMs);
      } finally {
        await end(member);
      }
      return true;
    });
  const kill = (member: M) => member.kill9();
  const start = (member: M) => member.start();
  const stop = async (member: M) => member.process?.stop();
  const go = async (member: M) => member.process?.cont();
  return [
    hit("killed", "leader", kill, start),
    hit("stopped", "leader", stop, go),
    hit("killed", "follower", kill, start),
    hit("stopped", "follower", stop, go),
    hit(
      "shut down",
      "leader",
      async (member) => {
        await member.process?.end("SIGTERM");
        await member.kill9();
      },
      start,
    ),
    engine(`${cluster} without a majority`, async (site) => {
      const { followers } = await split();
      try {
        await Promise.all(followers.map(stop));
        await delay(1.3 * site.ttlMs);
      } finally {
        await Promise.all(followers.map(go));
      }
      return true;
    }),
    engine(`${cluster} killed as a whole`, async () => {
      await Promise.all(members.map(kill));
      await Promise.all(members.map(start));
      return true;
    }),
  ];
}
