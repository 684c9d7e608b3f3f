//! What pmixrun tells about a run when asked.

use std::fmt::Write;
use std::time::Duration;

use pmix_server::Stats;
use serde_json::json;

use super::options::ReportForm;
use super::output::Figure;

/// Figures about a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Number of ranks.
    pub ranks: u32,
    /// From the first fork until all ranks had been forked.
    pub forking: Duration,
    /// From the first fork until all had ended.
    pub total: Duration,
    /// The server's figures at the end.
    pub stats: Stats,
    /// What the ranks printed for the report.
    pub figures: Vec<Figure>,
}

impl Report {
    /// The report in a form, with its line ends.
    pub fn render(&self, form: ReportForm) -> String {
        match form {
            ReportForm::Text => self.text(),
            ReportForm::Json => self.json() + "\n",
        }
    }

    fn text(&self) -> String {
        let stats = &self.stats;
        let wireup = stats.wireup.map_or("no fence".into(), milliseconds);
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a String does not fail.
            let _ = writeln!(text, "pmixrun: {name:<34} {value}");
        };
        line("ranks", self.ranks.to_string());
        line("all forked after", milliseconds(self.forking));
        line("first fork to last fence done", wireup);
        line("first fork to last exit", milliseconds(self.total));
        line("fences", stats.fences.to_string());
        line("job segment", format!("{} bytes", stats.job_segment_bytes));
        line("modex segments", format!("{} bytes", stats.modex_segment_bytes));
        line("segments", stats.segments.to_string());
        line("clients on shared memory", stats.clients_shared.to_string());
        line("clients on the socket alone", stats.clients_socket.to_string());
        line("gets answered over the socket", stats.gets.to_string());
        for figure in &self.figures {
            line(&figure.name.replace('_', " "), figure.value.to_string());
        }
        text
    }

    fn json(&self) -> String {
        let stats = &self.stats;
        let seconds = |duration: Duration| duration.as_secs_f64();
        let figures: serde_json::Map<_, _> =
            self.figures.iter().map(|figure| (figure.name.clone(), json!(figure.value))).collect();
        json!({
            "ranks": self.ranks,
            "forking_seconds": seconds(self.forking),
            "wireup_seconds": stats.wireup.map(seconds),
            "total_seconds": seconds(self.total),
            "fences": stats.fences,
            "job_segment_bytes": stats.job_segment_bytes,
            "modex_segment_bytes": stats.modex_segment_bytes,
            "segments": stats.segments,
            "clients_shared": stats.clients_shared,
            "clients_socket": stats.clients_socket,
            "gets_over_socket": stats.gets,
            "figures": figures,
        })
        .to_string()
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            ranks: 4,
            forking: Duration::from_millis(3),
            total: Duration::from_millis(250),
            stats: Stats {
                clients_shared: 4,
                modex_segment_bytes: 4096,
                wireup: Some(Duration::from_millis(120)),
                ..Stats::default()
            },
            figures: vec![Figure { name: "get_median_ns".into(), value: 210.0 }],
        }
    }

    #[test]
    fn text_has_a_line_per_figure() {
        let text = report().render(ReportForm::Text);
        for part in ["last fence done      120.0 ms", "modex segments                     4096 bytes", "get median ns"]
        {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn json_is_one_line_for_scripts() {
        let text = report().render(ReportForm::Json);
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["clients_shared"], 4);
        assert_eq!(value["wireup_seconds"], 0.12);
        assert_eq!(value["figures"]["get_median_ns"], 210.0);
    }
}
