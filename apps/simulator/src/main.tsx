/** With `?embedded`, the page fits into a frame of another page. */
import { ThemeProvider } from "leasehold-ui";
import { createRoot } from "react-dom/client";
import "leasehold-ui/styles.css";
import { SimulatorPage } from "./simulator-page.js";

const embedded = new URLSearchParams(location.search).has("embedded");

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <ThemeProvider>
      <main className={embedded ? "p-2" : "min-h-dvh px-4 py-5 sm:px-7 sm:py-7"}>
        <SimulatorPage embedded={embedded} />
      </main>
    </ThemeProvider>,
  );
}
