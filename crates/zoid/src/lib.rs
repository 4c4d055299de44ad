//! The zoid method of BMI: messages between compute processes and the server on their I/O node.
