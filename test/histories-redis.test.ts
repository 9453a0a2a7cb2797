/** A share of `npm run histories -- --target redis`. */
import { afterAll, it } from "vitest";
import { makeHistories } from "./support/history-campaign.js";
import { expectRightHistories } from "./support/history-share.js";
import { onRedis } from "./support/history-target-redis.js";
import { endAll } from "./support/processes.js";
import { describeRedis } from "./support/redis-engine.js";

describeRedis("histories on Redis", () => {
  afterAll(() => endAll());

  it("are right through the fault proxy", () =>
    onRedis((target) =>
      expectRightHistories((options) => makeHistories(target, options), {
        count: 5,
        requests: 60,
      }),
    ));
});
