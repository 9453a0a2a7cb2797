/** With `?embedded`, the page fits into a frame of another page. */
import { render, ThemeProvider } from "leasehold-ui";
import { SimulatorPage } from "./simulator-page.js";

const embedded = new URLSearchParams(location.search).has("embedded");

render(
  <ThemeProvider>
    <main className={embedded ? "p-2" : "min-h-dvh px-4 py-5 sm:px-7 sm:py-7"}>
      <SimulatorPage embedded={embedded} />
    </main>
  </ThemeProvider>,
);
