import { onContentUpdated } from "vitepress";
import DefaultTheme from "vitepress/theme";
import Simulator from "./Simulator.vue";
import { showCurrentPage } from "./sidebar.js";
import TtlCalculator from "./TtlCalculator.vue";
import "./style.css";

/** @type {import("vitepress").Theme} */
export default {
  extends: DefaultTheme,
  setup() {
    onContentUpdated(showCurrentPage);
  },
  enhanceApp({ app }) {
    app.component("Simulator", Simulator);
    app.component("TtlCalculator", TtlCalculator);
  },
};
