/** A share of `npm run histories -- --target zookeeper`. */
import { afterAll, it } from "vitest";
import { makeHistories } from "./support/history-campaign.js";
import { expectRightHistories } from "./support/history-share.js";
import { onZooKeeper } from "./support/history-target-zookeeper.js";
import { endAll } from "./support/processes.js";
import { describeZooKeeper } from "./support/zookeeper-engine.js";

describeZooKeeper("histories on ZooKeeper", () => {
  afterAll(() => endAll());

  it("are right through the fault proxy", () =>
    onZooKeeper((target) =>
      expectRightHistories((options) => makeHistories(target, options), {
        count: 5,
        requests: 40,
      }),
    ));
});
