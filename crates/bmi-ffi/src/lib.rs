//! `libbmi`: the BMI interface under the names that C programs know.
