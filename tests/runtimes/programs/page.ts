/** The script of a page. Only compiled. */
import { connect } from "leasehold";
import { http } from "leasehold/stores/http";

export async function edit(text: HTMLTextAreaElement): Promise<string> {
  await using leasehold = await connect(http({ url: `${location.origin}/leasehold` }));
  return await leasehold.run("report:42", async ({ signal }) => {
    text.disabled = false;
    signal.addEventListener("abort", () => {
      text.disabled = true;
    });
    return text.value;
  });
}
