/** The simulator alone, for any static host. */
import { createRoot } from "react-dom/client";
import "../styles.css";
import { ThemeProvider } from "../ui/theme.js";
import { SimulatorPage } from "./simulator-page.js";

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <ThemeProvider>
      <main className="min-h-dvh px-4 py-5 sm:px-7 sm:py-7">
        <SimulatorPage />
      </main>
    </ThemeProvider>,
  );
}
